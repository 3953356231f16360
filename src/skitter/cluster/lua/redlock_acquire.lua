-- ARGV: name, owner, lifetime in milliseconds. One server of a redlock: {1 if it grants the lock, counter, token}; the
-- token is '0' until redlock_token.lua has written it.
local key = P .. 'lock:' .. ARGV[1]
local counter = redis.call('GET', P .. 'counter') or '0'
local held = redis.call('HMGET', key, 'owner', 'token')
if held[1] and held[1] ~= ARGV[2] then return {0, counter, '0'} end
redis.call('HSET', key, 'owner', ARGV[2], 'token', held[2] or '0')
redis.call('PEXPIRE', key, millis(ARGV[3]))
return {1, counter, held[2] or '0'}
