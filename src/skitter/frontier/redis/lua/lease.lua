-- lease: requests that may start now (promises 4 and 5). Reaps first.
--
--   everything of 4_leases.lua
--
-- ARGV: time, worker, limit, run and number of the permits that the client knows, token of the call, slots of the worker, its needs, its round trip;
-- for a shard also the version of the job that the client knows, leases that the worker holds in other shards, whether it seeds there,
-- the highest priority that they have or nothing, and whether the worker sends the call again. Answers a grant.

if not load_job() then return false end
local worker, limit, token, answer = ARGV[2], tonumber(ARGV[3]), ARGV[6], nil
local permits_run, permits_known = tonumber(ARGV[4]), tonumber(ARGV[5])
asked, share.slots = worker, tonumber(ARGV[7])
if ARGV[8] ~= '' then needs.serve(ARGV[8]) end
pace.round_trip_seconds = tonumber(ARGV[9])
local earlier = answers.recall(worker, token, ARGV[14] == '1')
if earlier then
  answer = lease_again(worker, earlier, permits_run, permits_known)
else
  local others
  if J.shards then
    others = {tonumber(ARGV[11]), ARGV[12] == '1', tonumber(ARGV[13])}
    -- A shard that has not heard of a command or of a new run grants nothing.
    if J.version < tonumber(ARGV[10]) then limit = 0 end
  end
  answer = lease(worker, limit, permits_run, permits_known, others)
  answers.remember(worker, token, '')
end
close()
return answer
