-- lease: requests that may start now (promises 4 and 5). Reaps first.
--
--   everything of 4_leases.lua
--
-- ARGV: time, worker, limit, run and number of the permits that the client knows. Answers a grant.

if not load_job() then return false end
local answer = lease(ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]))
close()
return answer
