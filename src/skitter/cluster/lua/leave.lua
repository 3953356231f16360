-- ARGV: group, member, owner.
if owner_of(ARGV[2]) == ARGV[3] then
  redis.call('ZREM', members, ARGV[2])
  redis.call('HDEL', data, ARGV[2])
end
