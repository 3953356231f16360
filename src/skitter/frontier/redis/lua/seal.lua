-- seal: the end of a job in shards (promise 6). First the lead begins a seal, then every other shard that is idle is
-- sealed and takes no more requests, and then the lead ends the job if it is idle and nobody has broken the seal. So at
-- that instant every shard is idle, and whatever a worker still sends belongs to a lease that is lost.
--
--   job, RUN:tally (written)
--
-- ARGV: time, "begin", "seal" or "end", run, version, the number of the seal but for "begin", and for "end" how many links
-- between shards were lost.
-- Answers the number of the seal, -1 when the shard is not idle, 0 when somebody else has gone on meanwhile.

if not load_job() then return false end
local step, number = ARGV[2], tonumber(ARGV[5])
if J.run ~= tonumber(ARGV[3]) or J.version ~= tonumber(ARGV[4]) or J.state == 'finished' then return 0 end
if not is_idle() then return -1 end
if step == 'begin' then
  J.seal, J.sealing = J.seal + 1, true
  number = J.seal
elseif step == 'seal' then
  if J.sealed > number then return 0 end
  J.sealed = number
else
  if not J.sealing or J.seal ~= number then return 0 end
  J.state, J.ended_at = 'finished', now
  if ARGV[6] ~= '0' then call('HSET', RUN .. 'tally', LOST_LINKS, ARGV[6]) end
  changed()
end
save_job()
return number
