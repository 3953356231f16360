-- reap: expired leases go back, each with a loss. What a host left that was given up goes on being buried.
--
--   job, hosts, RUN:holds, RUN:deadlines, RUN:held:WORKER, RUN:requests and its indexes (written)
--
-- ARGV: time. Answers how many.

if not load_job() then return false end
local lost = reap()
bury_more()
close()
return lost
