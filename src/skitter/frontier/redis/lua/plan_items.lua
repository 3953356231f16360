-- plan_items: keeps the ownership of a target, and writes down which items come next before they are handed out.
--
--   job, RUN:targets (written)
--
-- ARGV: time, target, owner, seconds that an ownership lasts, numbers in the plan as the client knows it, then for each
-- further part of it: shard, number of items. A plan that has changed meanwhile stays as it is.
-- Answers positions or nothing, the plan, reigns of each shard, and the reign of this server; an empty answer when the ownership was lost.

if not load_job() then return false end
local target = targets.load(ARGV[2])
if not target or target[T_OWNER] ~= ARGV[3] then return {} end
target[T_OWNED_UNTIL] = now + tonumber(ARGV[4])
if #target[PLAN] == tonumber(ARGV[5]) then
  for place = 6, #ARGV do target[PLAN][#target[PLAN] + 1] = tonumber(ARGV[place]) end
end
targets.save(ARGV[2], target)
save_job()
return {target[VECTOR], target[PLAN], target[T_REIGNS], reign()}
