-- target_items_done: items_done, at the lead of a job in shards. The shards forget what it covers after.
--
--   job, RUN:targets, RUN:marks (written)
--
-- ARGV: time, target, owner, seconds that an ownership lasts, mark, closed, reign of this server when the items were
-- given, items rejected so far, what the owner waits for, number of shards, position in each, the rest of the plan.
-- Answers 1; 0 when the ownership was lost; 2 in another reign, where nothing is recorded.

if not load_job() then return false end
local target = targets.load(ARGV[2])
if not target or target[T_OWNER] ~= ARGV[3] then return 0 end
if ARGV[7] ~= '' and ARGV[7] ~= reign() then return 2 end
target[T_OWNED_UNTIL], target[T_CLOSED] = now + tonumber(ARGV[4]), ARGV[6] == '1'
target[T_REJECTED], target[T_TROUBLE] = tonumber(ARGV[8]), ARGV[9]
target[VECTOR], target[PLAN] = {}, {}
local last = 10 + tonumber(ARGV[10])
for place = 11, last do target[VECTOR][place - 10] = tonumber(ARGV[place]) end
for place = last + 1, #ARGV do target[PLAN][place - last] = tonumber(ARGV[place]) end
targets.save(ARGV[2], target)
call('HSET', RUN .. 'marks', ARGV[2], ARGV[5])
save_job()
return 1
