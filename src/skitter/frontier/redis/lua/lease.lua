-- lease: requests that may start now (promises 4 and 5). Reaps first.
--
--   everything of 4_leases.lua
--
-- ARGV: time, worker, limit, run and number of the permits that the client knows, token of the call. Answers a grant.

if not load_job() then return false end
local worker, token, answer = ARGV[2], ARGV[6], nil
local earlier = recall(worker, token)
if earlier then
  answer = lease_again(worker, earlier, tonumber(ARGV[4]), tonumber(ARGV[5]))
else
  answer = lease(worker, tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]))
  remember(worker, token, '')
end
close()
return answer
