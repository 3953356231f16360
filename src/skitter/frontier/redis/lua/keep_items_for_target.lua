-- keep_items_for_target: a shard keeps items for a target from now on, if it did not before; and tells where the target is.
--
--   job, RUN:sinks (written)
--
-- ARGV: time, target, the position that the lead has for it and the life of the server that gave it, or nothing.
-- Answers the position from which on, which is another one if items were lost since; up to where the items are still the
-- same; and the life of the server.

if not load_job() then return false end
local present = note_life()
call('HSETNX', RUN .. 'sinks', ARGV[2], pack(new_sink()))
local position, same = unpacked(call('HGET', RUN .. 'sinks', ARGV[2]))[POSITION], J.position
if ARGV[3] ~= '' then
  same = same_since(ARGV[4])
  -- A lead that has lost its newest writes does not know any more what this shard has forgotten.
  position = math.max(position, math.min(tonumber(ARGV[3]), same))
end
save_job()
return {position, same, present}
