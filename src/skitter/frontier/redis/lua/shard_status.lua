-- shard_status: nothing but the status of a shard (6_shards.lua), and what a worker holds there.
--
--   job, RUN:held:WORKER, RUN:alone, RUN:holds (read)
--
-- ARGV: time, worker or nothing.

if not load_job() then return false end
asked = ARGV[2] ~= '' and ARGV[2]
return 1
