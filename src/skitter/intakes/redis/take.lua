-- Takes messages from a list, a set or a sorted set into the taken list of one reader, and puts those of others back.
--
--   KEYS[1]        the key that messages are read from
--   KEYS[2]        zset     readers, as KIND/READER, by the time until which they count as alive
--   KEYS[3]READER  list     what a reader has taken and not acknowledged; of a sorted set with the score and a blank before it
--
-- A message is in the key or in one taken list, never in both and never in none.
--
-- ARGV: "take" or "put back", reader, seconds that a reader counts as alive, most messages to take.
-- Answers the type of the key, and what was taken. With "put back" only what this reader has taken goes back.

local call, SOURCE, READERS = redis.call, KEYS[1], KEYS[2]
local step, reader, seconds, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local time = call('TIME')
local now = time[1] + time[2] / 1000000

local function put_back(member)
  local kind, name = string.match(member, '^(%a+)/(.*)$')
  local taken = KEYS[3] .. name
  local messages = call('LRANGE', taken, 0, -1)
  -- The last first: so the first one is the next to be taken again.
  for place = #messages, 1, -1 do
    local message = messages[place]
    if kind == 'list' then
      call('LPUSH', SOURCE, message)
    elseif kind == 'set' then
      call('SADD', SOURCE, message)
    else
      local score, body = string.match(message, '^(%S+) (.*)$')
      call('ZADD', SOURCE, 'NX', score, body)
    end
  end
  call('DEL', taken)
  call('ZREM', READERS, member)
end

if step == 'put back' then
  for _, member in ipairs(call('ZRANGE', READERS, 0, -1)) do
    if string.match(member, '^%a+/(.*)$') == reader then put_back(member) end
  end
  return {call('TYPE', SOURCE).ok, {}}
end
for _, member in ipairs(call('ZRANGEBYSCORE', READERS, '-inf', now, 'LIMIT', 0, 8)) do put_back(member) end
local kind, found = call('TYPE', SOURCE).ok, {}
local member = kind .. '/' .. reader
if limit == 0 then
  for _, other in ipairs(call('ZRANGE', READERS, 0, -1)) do
    if string.match(other, '^%a+/(.*)$') == reader then call('ZADD', READERS, now + seconds, other) end
  end
elseif kind == 'list' then
  found = call('LRANGE', SOURCE, 0, limit - 1)
  call('LTRIM', SOURCE, #found, -1)
elseif kind == 'set' then
  found = call('SPOP', SOURCE, limit)
elseif kind == 'zset' then
  local popped = call('ZPOPMAX', SOURCE, limit)
  for place = 1, #popped, 2 do found[#found + 1] = popped[place + 1] .. ' ' .. popped[place] end
end
if #found > 0 then
  call('RPUSH', KEYS[3] .. reader, unpack(found))
  call('ZADD', READERS, now + seconds, member)
end
return {kind, found}
