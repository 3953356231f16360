-- begin: create, resume or rerun the job, in one step.
--
--   job, begun (read, written), spec (written), RUN:sinks (read, written)
--
-- ARGV: time, version of the spec that the client compared with, fresh, same work, spec, settings, a new secret (also
--       the token of the call: sent again, it is answered as before),
--       mean size of a bucket, targets...
-- Answers how it began and, for a rerun, the run that is over; "again" when the spec was changed meanwhile,
-- "other" when an unfinished run has other work.

local version, fresh, same = tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == '1'

local function new_job(old)
  return {
    state = 'running', run = old and old.run + 1 or 1, seeding = true, seed_losses = 0,
    started_at = now, ended_at = 0, reason = '',
    queued = 0, delayed = 0, leased = 0, done = 0, redirected = 0, dead = 0, excluded = 0,
    -- Sequences. Epochs and positions go on in a new run, so that nothing of an old one fits.
    next_seq = 1, next_epoch = old and old.next_epoch or 1, position = old and old.position or 0,
    first_item = (old and old.position or 0) + 1,
    -- For people: hosts with long queues, and two samples for the rate of now {at, done, at, done}.
    crowded = {}, pace = {0, 0, 0, 0},
    -- The buckets of seen: their number, and their number when the present round of splits began.
    buckets = 1, bucket_round = 1, bucket_mean = tonumber(ARGV[8]),
    clock = J.clock, wall = J.wall, secret = old and old.secret or ARGV[7],
    spec_version = version + 1, settings = unpacked(ARGV[6]), format = FORMAT,
  }
end

local function is_over()
  if J.state ~= 'finished' then return false end
  for _, sink in pairs(load_sinks()) do
    if not sink[CLOSED] or sink[POSITION] < J.position then return false end
  end
  return true
end

local found = load_job()
local stored = found and call('GET', BASE .. 'begun')
local earlier = stored and unpacked(stored)
if earlier and earlier[1] == ARGV[7] then return {earlier[2], earlier[3]} end
if (found and J.spec_version or 0) ~= version then return {'again', 0} end
local begun, over = 'resumed', 0
if not found then
  J = {clock = 0, wall = 0}
  read_clock()
  use_job(new_job(nil))
  begun = 'new'
elseif fresh or is_over() then
  begun, over = 'rerun', J.run
  use_job(new_job(J))
elseif not same then
  return {'other', 0}
else
  J.settings, J.spec_version = unpacked(ARGV[6]), version + 1
  -- Whoever starts the job again vouches for its start(): a few kill -9 must not end the seeding.
  J.seed_losses = 0
  if J.state == 'stopped' or J.state == 'draining' then J.state, J.ended_at, J.reason = 'running', 0, '' end
end
for place = 9, #ARGV do
  call('HSETNX', RUN .. 'sinks', ARGV[place], pack({J.position, false, '', 0}))
end
call('SET', BASE .. 'spec', ARGV[5])
call('SET', BASE .. 'begun', pack({ARGV[7], begun, over}))
save_job()
return {begun, over}
