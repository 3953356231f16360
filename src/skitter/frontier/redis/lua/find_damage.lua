-- find_damage: looks for a record that cannot be unpacked: the job's own, or those of a hash, a piece of it at a time.
--
--   job, hosts, pages, RUN:requests, RUN:holds (read)
--
-- ARGV: time, the key, which of them it is, where to go on.
-- Answers where to go on, and of a record that cannot be unpacked its field and the reason.

local function check_numbers(record, texts)
  for place, value in pairs(record) do
    if not texts[place] and (type(value) ~= 'number' or value ~= value) then
      error('no number at place ' .. place .. ': ' .. tostring(value))
    end
  end
end

local function check_time(value)
  if value < 0 or value >= LATEST then error('no time: ' .. value) end
end

local function check_row(row)
  check_numbers(row, {[HOST] = true, [ERROR_CLASS] = true, [ERROR] = true, [PAYLOAD] = true, [NEED] = true})
  check_time(row[NOT_BEFORE])
  check_time(row[ENDED_AT])
  if not COUNTER[row[PLACE]] then error('no place of a request: ' .. row[PLACE]) end
  if type(row[ERROR_CLASS]) ~= 'string' or type(row[ERROR]) ~= 'string' then error('no text of an error') end
  if type(row[NEED]) ~= 'string' then error('no need: ' .. tostring(row[NEED])) end
end

-- Of the job's record: what cannot be unpacked here, though a client can, and numbers that are none.
local function check_job(stored)
  local job = unpacked(stored)
  for name, value in pairs(job) do
    if value ~= value then error('no number: ' .. name) end
  end
  check_numbers(job.crowded or {}, {})
  check_numbers(job.samples or {}, {})
  check_numbers(job.delivered or {}, {})
end

local function check_levels(levels)
  if levels and type(levels) ~= 'table' then error('no levels: ' .. tostring(levels)) end
  if levels then check_numbers(levels, {}) end
end

local check = {
  hosts = function(_, stored)
    local h = unpack_host(stored)
    for place = 1, PACER do
      if h[place] == nil then error('nothing at place ' .. place) end
    end
    check_numbers(h, {[ADDRESS] = true, [HOST_ERROR] = true, [LEVELS] = true, [PACER] = true, [NEEDS] = true})
    for _, place in ipairs({DUE, BLOCKED_UNTIL, LATENCY}) do check_time(h[place]) end
    check_levels(h[LEVELS])
    for need, queue in pairs(h[NEEDS] or {}) do
      if type(need) ~= 'string' then error('no need: ' .. tostring(need)) end
      check_numbers({queue[QUEUED], queue[TOP]}, {})
      if not queue[QUEUED] or not queue[TOP] then error('no queue of need ' .. need) end
      check_levels(queue[LEVELS])
    end
    if type(h[HOST_ERROR]) ~= 'string' then error('no text of an error') end
  end,
  pages = function(_, stored)
    local page = unpacked(stored)
    if type(page[1]) ~= 'string' or type(page[2]) ~= 'string' then error('no host key and payload') end
  end,
  requests = function(_, stored) check_row(unpack_row(stored, 1)) end,
  holds = function(key, stored)
    local hold = unpack_hold(stored)
    if work_of(key) == PAGE then check_row(row_of(hold)) end
  end,
}

if ARGV[3] == 'job' then
  local is_good, reason = pcall(check_job, call('GET', ARGV[2]))
  if not is_good then return {'0', 'its record', tostring(reason)} end
  return {'0'}
end
local scanned = call('HSCAN', ARGV[2], ARGV[4], 'COUNT', 500)
local found = scanned[2]
for place = 1, #found, 2 do
  local is_good, reason = pcall(check[ARGV[3]], found[place], found[place + 1])
  if not is_good then return {scanned[1], found[place], tostring(reason)} end
end
return {scanned[1]}
