-- ARGV: of each step its kind (put, delete, check), path, expected version ('': any) and value.
-- The versions after the steps; or {'conflict', number of the step from 0, name of the Conflict}.
-- Redis takes nothing back, so all steps are first tried on what would be there.
local NEW = '-1' -- the version of what an earlier step makes: none that anybody can expect
local would_be, more_children = {}, {}

local function version_of(path)
  return would_be[path] or redis.call('HGET', P .. 'entry:' .. path, 'version') or '0'
end

local function split(path)
  local parent, name = string.match(path, '^(.*)/([^/]*)$')
  return parent or '', name or path
end

local function count_child(path, change)
  local parent = split(path)
  more_children[parent] = (more_children[parent] or 0) + change
end

local function has_children(path)
  return redis.call('ZCARD', P .. 'children:' .. path) + (more_children[path] or 0) > 0
end

local function conflict_of(kind, path, expected)
  local version = version_of(path)
  if kind == 'delete' then
    if version == '0' then return 'MISSING' end
    if has_children(path) then return 'CHILDREN' end
  end
  if expected == '' or expected == version then return nil end
  if expected == '0' then return 'EXISTS' end
  return version == '0' and 'MISSING' or 'VERSION'
end

-- A key and those above it that are missing, the key first.
local function missing(path)
  local found = {}
  while path ~= '' and version_of(path) == '0' do
    found[#found + 1] = path
    path = split(path)
  end
  return found
end

for at = 1, #ARGV, 4 do
  local kind, path = ARGV[at], ARGV[at + 1]
  local conflict = conflict_of(kind, path, ARGV[at + 2])
  if conflict then return {'conflict', (at - 1) / 4, conflict} end
  if kind == 'put' then
    for _, made in ipairs(missing(path)) do
      would_be[made] = NEW
      count_child(made, 1)
    end
  elseif kind == 'delete' then
    would_be[path] = '0'
    count_child(path, -1)
  end
end

local function write(path, value)
  local version = string.format('%.0f', next_number())
  redis.call('HSET', P .. 'entry:' .. path, 'value', value, 'version', version)
  local parent, name = split(path)
  redis.call('ZADD', P .. 'children:' .. parent, 0, name)
  return version
end

would_be = {}
local answer = {}
for at = 1, #ARGV, 4 do
  local kind, path = ARGV[at], ARGV[at + 1]
  local version = '0'
  if kind == 'check' then
    version = version_of(path)
  elseif kind == 'delete' then
    redis.call('DEL', P .. 'entry:' .. path)
    local parent, name = split(path)
    redis.call('ZREM', P .. 'children:' .. parent, name)
  else
    local made = missing(path)
    for place = #made, 1, -1 do
      if made[place] ~= path then write(made[place], '') end
    end
    version = write(path, ARGV[at + 3])
  end
  answer[#answer + 1] = version
end
return answer
