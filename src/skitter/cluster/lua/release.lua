-- ARGV: name, owner. 1 if it had the lock.
local key = P .. 'lock:' .. ARGV[1]
if redis.call('HGET', key, 'owner') ~= ARGV[2] then return 0 end
return redis.call('DEL', key)
