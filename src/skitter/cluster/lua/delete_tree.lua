-- ARGV: path. The number of keys deleted.
local waiting, deleted = {ARGV[1]}, 0
while #waiting > 0 do
  local path = table.remove(waiting)
  for _, name in ipairs(redis.call('ZRANGE', P .. 'children:' .. path, 0, -1)) do
    waiting[#waiting + 1] = path == '' and name or path .. '/' .. name
  end
  deleted = deleted + redis.call('DEL', P .. 'entry:' .. path)
  redis.call('DEL', P .. 'children:' .. path)
end
local parent, name = string.match(ARGV[1], '^(.*)/([^/]*)$')
redis.call('ZREM', P .. 'children:' .. (parent or ''), name or ARGV[1])
return deleted
