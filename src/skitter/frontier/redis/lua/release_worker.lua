-- release_worker: a worker was seen to die; its leases return at once, each with a loss, and its claim of on_close ends.
--
--   job, hosts, workers, heartbeats, RUN:holds, RUN:deadlines, RUN:held:WORKER, RUN:answers, RUN:requests and its indexes
--   (written)
--
-- ARGV: time, worker. Answers how many.

if not load_job() then return false end
local keys = call('SMEMBERS', RUN .. 'held:' .. ARGV[2])
local lost = lose(keys, load_holds(keys))
call('ZREM', RUN .. 'deadlines', ARGV[2])
forget_worker(ARGV[2])
if J.closing and J.closing[1] == ARGV[2] then J.closing = nil end
close()
return lost
