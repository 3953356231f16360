-- keep_items: a shard keeps items for a target from now on, if it did not before.
--
--   job, RUN:sinks (written)
--
-- ARGV: time, target. Answers the position from which on.

if not load_job() then return false end
call('HSETNX', RUN .. 'sinks', ARGV[2], pack({J.position, false, '', 0}))
return unpacked(call('HGET', RUN .. 'sinks', ARGV[2]))[POSITION]
