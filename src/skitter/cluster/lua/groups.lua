-- Follows shared.lua in the scripts of groups. ARGV[1]: the group.
local members, data = P .. 'group:' .. ARGV[1], P .. 'data:' .. ARGV[1]
local now = math.floor(now_micros() / 1000)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', members, '-inf', now)) do
  redis.call('ZREM', members, gone)
  redis.call('HDEL', data, gone)
end

local function owner_of(member)
  local stored = redis.call('HGET', data, member)
  return stored and string.match(stored, '^%S+')
end
