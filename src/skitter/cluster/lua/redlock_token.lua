-- ARGV: name, owner, token. Note the token of the owner, if it has the lock; 1 if it has.
local key = P .. 'lock:' .. ARGV[1]
if redis.call('HGET', key, 'owner') ~= ARGV[2] then return 0 end
redis.call('HSET', key, 'token', ARGV[3])
if tonumber(ARGV[3]) > tonumber(redis.call('GET', P .. 'counter') or '0') then
  redis.call('SET', P .. 'counter', ARGV[3])
end
return 1
