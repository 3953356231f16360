-- set_target_positions: where a target is in every shard, after the shards were asked (keep_items_for_target.lua); at the lead.
--
--   job, RUN:targets (written)
--
-- ARGV: time, target, owner, number of shards, position in each, reigns of each, the plan that still holds.
-- Answers 1, or 0 when the ownership was lost.

if not load_job() then return false end
local target = targets.load(ARGV[2])
if not target or target[T_OWNER] ~= ARGV[3] then return 0 end
local shards = tonumber(ARGV[4])
target[VECTOR], target[T_REIGNS], target[PLAN] = {}, {}, {}
for shard = 1, shards do
  target[VECTOR][shard] = tonumber(ARGV[4 + shard])
  target[T_REIGNS][shard] = ARGV[4 + shards + shard]
end
for place = 5 + 2 * shards, #ARGV do target[PLAN][#target[PLAN] + 1] = tonumber(ARGV[place]) end
targets.save(ARGV[2], target)
save_job()
return 1
