-- ARGV: name, owner, lifetime in milliseconds. The token, or nil if the owner does not have the lock.
local key = P .. 'lock:' .. ARGV[1]
local held = redis.call('HMGET', key, 'owner', 'token')
if held[1] ~= ARGV[2] then return nil end
redis.call('PEXPIRE', key, millis(ARGV[3]))
return held[2]
