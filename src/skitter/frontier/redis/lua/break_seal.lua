-- break_seal: there is work for a shard that is sealed. The lead breaks the seal; a job that has ended goes on only for those
-- who may open it again.
--
--   job (written)
--
-- ARGV: time, run or nothing, whether a finished job goes on, the newest seal that the client has seen (a lead that lost
-- its newest writes in a failover may not know it). Answers the newest seal, or -1 when the job stays as it is: it is
-- finished, or in another run.

if not load_job() then return false end
if ARGV[2] ~= '' and J.run ~= tonumber(ARGV[2]) then return -1 end
if J.state == 'finished' then
  if ARGV[3] ~= '1' then return -1 end
  reopen()
  changed()
end
J.sealing, J.seal = false, math.max(J.seal, tonumber(ARGV[4]))
save_job()
return J.seal
