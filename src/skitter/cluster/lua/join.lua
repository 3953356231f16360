-- ARGV: group, member, owner, lifetime in milliseconds, data. 1, or 0 if another owner has the member.
local owner = owner_of(ARGV[2])
if owner and owner ~= ARGV[3] then return 0 end
redis.call('ZADD', members, now + millis(ARGV[4]), ARGV[2])
redis.call('HSET', data, ARGV[2], ARGV[3] .. ' ' .. ARGV[5])
local last = redis.call('ZREVRANGE', members, 0, 0, 'WITHSCORES')
for _, key in ipairs({members, data}) do redis.call('PEXPIREAT', key, last[2]) end
return 1
