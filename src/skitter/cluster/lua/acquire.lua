-- ARGV: name, owner, lifetime in milliseconds. The token, or nil if another has the lock.
local key = P .. 'lock:' .. ARGV[1]
local held = redis.call('HMGET', key, 'owner', 'token')
if held[1] and held[1] ~= ARGV[2] then return nil end
local token = held[2] or string.format('%.0f', next_number())
redis.call('HSET', key, 'owner', ARGV[2], 'token', token)
redis.call('PEXPIRE', key, millis(ARGV[3]))
return token
