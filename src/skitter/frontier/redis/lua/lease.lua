-- lease: requests that may start now (promises 4 and 5). Reaps first.
--
--   everything of 4_leases.lua
--
-- ARGV: time, worker, limit, run and number of the permits that the client knows; for a shard also the version of
-- the job that the client knows, leases that the worker holds in other shards, whether it seeds there, and the highest
-- priority that they have or nothing. Answers a grant.

if not load_job() then return false end
local limit, others = tonumber(ARGV[3]), nil
if J.shards then
  others = {tonumber(ARGV[7]), ARGV[8] == '1', tonumber(ARGV[9])}
  -- A shard that has not heard of a command or of a new run grants nothing.
  if J.version < tonumber(ARGV[6]) then limit = 0 end
end
local answer = lease(ARGV[2], limit, tonumber(ARGV[4]), tonumber(ARGV[5]), others)
close()
return answer
