-- permit_hosts: host keys join the scope of the whole job; at the lead. Every shard knows how many there are, so that whoever
-- gets a lease knows whether it has to ask for more of them.
--
--   job, RUN:permits, RUN:permitted (written)
--
-- ARGV: time, run, host keys... Answers how many there are now; -1 when the run is another.

if not load_job() then return false end
if J.run ~= tonumber(ARGV[2]) then return -1 end
for place = 3, #ARGV do
  if call('SADD', RUN .. 'permitted', ARGV[place]) == 1 then
    call('RPUSH', RUN .. 'permits', ARGV[place])
    J.permits = J.permits + 1
  end
end
save_job()
return J.permits
