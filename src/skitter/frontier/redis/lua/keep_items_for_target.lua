-- keep_items_for_target: a shard keeps items for a target from now on, if it did not before; and tells where the target is.
--
--   job, RUN:sinks (written)
--
-- ARGV: time, target, the position that the lead has for it and the reigns of this shard when it was given, or nothing.
-- Answers the position from which on, which is another one if items were lost since; up to where the items are still the
-- same; and the reigns of this shard.

if not load_job() then return false end
call('HSETNX', RUN .. 'sinks', ARGV[2], pack(new_sink()))
local position, same = unpacked(call('HGET', RUN .. 'sinks', ARGV[2]))[POSITION], J.position
if ARGV[3] ~= '' then
  same = kept_since(ARGV[4], R_POSITION, J.position)
  -- A lead that has lost its newest writes does not know any more what this shard has forgotten.
  position = math.max(position, math.min(tonumber(ARGV[3]), same))
end
save_job()
return {position, same, list_reigns()}
