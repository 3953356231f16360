-- relieve_worker: a worker is held by one page; it keeps that lease, and the others return without a loss.
--
--   job, hosts, RUN:holds, RUN:held:WORKER, RUN:requests and its indexes (written)
--
-- ARGV: time, worker, the epoch of the lease that it keeps, seconds for which the page's host is left alone. Answers how
-- many return.

if not load_job() then return false end
local kept, pause = tonumber(ARGV[3]), tonumber(ARGV[4])
local keys, back = call('SMEMBERS', RUN .. 'held:' .. ARGV[2]), 0
for place, hold in ipairs(load_holds(keys)) do
  if hold[EPOCH] == kept then
    politeness.held(host_of(hold[HOLD_HOST]), pause)
  else
    hand_back(keys[place], hold, false, true)
    back = back + 1
  end
end
close()
return back
