-- trust_hosts: host keys that somebody has typed, at the shard that they belong to. Before they join the scope of the job:
-- from then on any worker may find a link to them, and the network guard must know by then that it may be followed.
--
--   job, hosts and the sets that they stand in (written)
--
-- ARGV: time, run, host keys... Answers 0 when the run is another.

if not load_job() then return false end
if J.run ~= tonumber(ARGV[2]) then return 0 end
local keys = {}
for place = 3, #ARGV do keys[#keys + 1] = ARGV[place] end
load_hosts(keys)
for _, key in ipairs(keys) do host_of(key)[TRUSTED] = 1 end
save_hosts()
-- A host whose address has been filled since it was put down as ready is parked by this, which the record counts.
save_job()
return 1
