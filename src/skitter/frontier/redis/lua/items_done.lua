-- items_done: a target holds everything up to a position. What every target holds is forgotten.
--
--   job, RUN:sinks, RUN:marks, RUN:items (written)
--
-- ARGV: time, target, owner, seconds that an ownership lasts, position, mark, closed, reign of the server that gave them,
--       items rejected so far, what the owner waits for.
-- Answers 1; 0 when the ownership was lost; 2 in another reign, where nothing is recorded.

if not load_job() then return false end
local stored = call('HGET', RUN .. 'sinks', ARGV[2])
local sink = stored and unpacked(stored)
if not sink or sink[OWNER] ~= ARGV[3] then return 0 end
if ARGV[8] ~= '' and ARGV[8] ~= reign() then return 2 end
sink[POSITION], sink[CLOSED], sink[OWNED_UNTIL] = tonumber(ARGV[5]), ARGV[7] == '1', now + tonumber(ARGV[4])
sink[REJECTED], sink[TROUBLE] = tonumber(ARGV[9]), ARGV[10]
call('HSET', RUN .. 'sinks', ARGV[2], pack(sink))
call('HSET', RUN .. 'marks', ARGV[2], ARGV[6])
drop_items()
close()
return 1
