-- forget_items: a target holds the items of a shard up to a position.
--
--   job, RUN:sinks, RUN:items (written)
--
-- ARGV: time, target, position, life of the server that gave it: what came in place of lost items is not forgotten.

if not load_job() then return false end
local stored = call('HGET', RUN .. 'sinks', ARGV[2])
if not stored then return 1 end
note_life()
local sink = unpacked(stored)
sink[POSITION] = math.max(sink[POSITION], math.min(tonumber(ARGV[3]), same_since(ARGV[4])))
call('HSET', RUN .. 'sinks', ARGV[2], pack(sink))
drop_items()
save_job()
return 1
