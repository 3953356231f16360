-- forget_items: a target holds the items of a shard up to a position.
--
--   job, RUN:sinks, RUN:items (written)
--
-- ARGV: time, target, position, reigns of this shard when it gave them: what came in place of lost items is not forgotten.

if not load_job() then return false end
local stored = call('HGET', RUN .. 'sinks', ARGV[2])
if not stored then return 1 end
local sink = unpacked(stored)
sink[POSITION] = math.max(sink[POSITION], math.min(tonumber(ARGV[3]), kept_since(ARGV[4], R_POSITION, J.position)))
call('HSET', RUN .. 'sinks', ARGV[2], pack(sink))
drop_items()
save_job()
return 1
