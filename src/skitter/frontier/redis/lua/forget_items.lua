-- forget_items: a target holds the items of a shard up to a position; without one the shard keeps nothing for it any more.
--
--   job, RUN:sinks, RUN:items (written)
--
-- ARGV: time, target, position or nothing.

if not load_job() then return false end
local stored = call('HGET', RUN .. 'sinks', ARGV[2])
if not stored then return 1 end
if ARGV[3] == '' then
  call('HDEL', RUN .. 'sinks', ARGV[2])
else
  local sink = unpacked(stored)
  sink[POSITION] = math.max(sink[POSITION], tonumber(ARGV[3]))
  call('HSET', RUN .. 'sinks', ARGV[2], pack(sink))
end
drop_items()
save_job()
return 1
