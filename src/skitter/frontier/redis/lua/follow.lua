-- follow: a shard takes over the run, the state and the settings of its lead; made new if it is not there.
--
--   job, RUN:sinks, RUN:items (written)
--
-- ARGV: time, number of this shard, what read_lead.lua told, whether it was swept.
-- Answers the run that it has left behind, or 0; -1 when it is new, and what an earlier job of the same name may have
-- left has to be swept out first; -2 when the shard had a record and has lost it.

local shard, lead = tonumber(ARGV[2]), unpacked(ARGV[3])
local found, left = load_job(), 0
if not found and lead.complete then return -2 end

local function in_run(old)
  local job = as_shard(new_job(old, lead.secret, lead.bucket_mean, lead.settings), old, lead.shards, shard)
  job.run, job.seeding = lead.run, false
  return job
end

if not found or J.secret ~= lead.secret then
  -- Of version 0, so that everyone knows that it is not ready.
  J = {clock = 0, wall = 0}
  read_clock()
  use_job(in_run(nil))
  J.dirty = true
  save_job()
  return -1
end
if J.dirty and ARGV[4] ~= '1' then return -1 end
if J.version >= lead.version then return 0 end
if J.run ~= lead.run then
  left = J.run
  use_job(in_run(J))
end
-- What it may do beyond what it has done and begun is decided anew: the limit may be a lower one.
J.allotted = math.min(J.allotted, J.done + J.leased)
pace.use_settings(lead.settings)
J.state, J.version, J.dirty = lead.state, lead.version, false
J.permits = math.max(J.permits, lead.permits)
-- The lead has broken every seal but the one that ended the job.
if J.state ~= 'finished' then J.sealed = 0 end
local known = {}
for _, target in ipairs(lead.targets) do
  known[target] = true
  call('HSETNX', RUN .. 'sinks', target, pack(new_sink()))
end
for target in pairs(load_sinks()) do
  if not known[target] then call('HDEL', RUN .. 'sinks', target) end
end
drop_items()
save_job()
return left
