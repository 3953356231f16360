-- begin: create, resume or rerun the job, in one step.
--
--   job, begun (read, written), dropped (read), spec (written), pages, records, due (removed with an old job), RUN:sinks, RUN:targets (read, written)
--
-- ARGV: time, version of the spec that the client compared with, how (1: fresh; 2: no new run, because one was begun for
--       this key), same work, spec, settings, a new secret (also
--       the token of the call: sent again, it is answered as before),
--       mean size of a bucket, number of shards, items that all shards have ever had, spec and settings with what was
--       changed in the run (nothing: nothing was), targets...
-- Answers how it began and the run that is over, if there was one; "again" when the spec was changed meanwhile,
-- "other" when an unfinished run has other work, "shards" and their number when the job has another one.

local version, fresh, same = tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == '1'
local is_begun = ARGV[3] == '2'

local shards, items = tonumber(ARGV[9]), tonumber(ARGV[10])
local spec, settings = ARGV[5], ARGV[6]

local function started(old)
  local job = new_job(old, ARGV[7], tonumber(ARGV[8]), unpacked(settings))
  return shards > 1 and as_shard(job, old, shards, 0) or job
end

local function is_over()
  if J.state ~= 'finished' or (S.on_close and not J.closed) then return false end
  if J.shards then return targets.have_all(items) end
  for _, sink in pairs(load_sinks()) do
    if not sink[CLOSED] or sink[POSITION] < J.position then return false end
  end
  return true
end

local found = load_job()
if found and (J.shards or 1) ~= shards then
  local number = J.shards or 1
  -- Told as to anyone: who asked does not know what a shard's answer looks like.
  J = nil
  return {'shards', number}
end
local stored = found and call('GET', BASE .. 'begun')
local earlier = stored and unpacked(stored)
if earlier and earlier[1] == ARGV[7] then return {earlier[2], earlier[3]} end
if (found and J.spec_version or 0) ~= version then return {'again', 0} end
local begun, over = 'resumed', 0
if not found then
  J = {clock = 0, wall = 0}
  read_clock()
  local job, dropped = started(nil), call('GET', BASE .. 'dropped')
  -- A job of this name was removed, and not to the end: its keys must not be taken for this one's.
  if dropped then
    over = tonumber(string.match(dropped, '%d+'))
    job.run = over + 1
  end
  use_job(job)
  call('UNLINK', BASE .. 'pages', BASE .. 'records', BASE .. 'due')
  begun = 'new'
elseif fresh or (not is_begun and is_over()) then
  begun, over = 'rerun', J.run
  use_job(started(J))
elseif not same then
  return {'other', 0}
else
  if ARGV[11] ~= '' then spec, settings = ARGV[11], ARGV[12] end
  pace.use_settings(unpacked(settings))
  -- Whoever starts the job again vouches for its start(): a few kill -9 must not end the seeding.
  J.seed_losses = 0
  if J.state == 'stopped' or J.state == 'draining' then J.state, J.ended_at, J.reason = 'running', 0, '' end
end
J.spec_version = version + 1
if J.shards then
  J.allotted = math.min(J.allotted, J.done + J.leased)
  changed()
end
for place = 13, #ARGV do
  call('HSETNX', RUN .. 'sinks', ARGV[place], pack(new_sink()))
  if J.shards then call('HSETNX', RUN .. 'targets', ARGV[place], pack(targets.new())) end
end
call('SET', BASE .. 'spec', spec)
call('SET', BASE .. 'begun', pack({ARGV[7], begun, over}))
save_job()
return {begun, over}
