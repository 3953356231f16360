-- The beginning of every script: the job's record, the clock, and the legend of all keys.
--
-- Every key begins with skitter:{JOB:SHARD}: so that a Redis Cluster keeps a shard's keys together, and jobs in one
-- Redis never meet. Scripts build the names of their keys from KEYS[1]; all of them share its hash tag.
--
--   job           string  msgpack map: state, run, counters, sequences, clock, settings (the fields are in begin.lua)
--   spec          string  msgpack: the JobSpec as the client wrote it
--   dropped       string  last run and number of shards of a job that is being removed (jobs.py)
--   hosts         hash    host key -> the host's record, packed (2_hosts.lua)
--   begun         string  msgpack array: token and answer of the newest begin; then the token of the newest change of
--                         settings since, if there was one
--   pages         hash    in a job that recrawls: id -> msgpack array of host key and payload: every request that it ever
--                         had, whichever run
--   records       hash    id -> msgpack: the PageRecord of a page that was fetched, as the client wrote it
--   due           zset    id by the time when the page may be fetched again: all of pages
--   robots        hash    host key -> msgpack: its RobotsRecord, as the client wrote it
--   workers       zset    worker id by the time it was last heard from
--   delivered:N   set     ids of pages whose items every target holds, of all runs (the setting dedup_scope); as seen:N
--   distinct      string  registers of a HyperLogLog of the URLs that were done, of all runs, one byte each
--   heartbeats         hash    worker id -> msgpack: its WorkerHeartbeat, as the client wrote it
--
-- What belongs to one run has the run's number before its name, RUN:NAME, so that a new run begins with nothing
-- and what an old one left can be removed at leisure:
--
--   seen:N        set     request ids: bucket N of an exact set (dedup/lua/exact.lua). All of them; or, where there is
--                         a filter or generations, those that are not done or redirected
--   ended         string  msgpack map: the record of the filter or of the generations
--   filter:S:N    string  with dedup=bloom: ids that are done or redirected, block N of sub-filter S (dedup/lua/bloom.lua)
--   generation:G:N set    with dedup_seconds: ids that are done or redirected, bucket N of generation G
--                         (dedup/lua/expiring.lua)
--   kept:N        set     with a Bloom filter: ids of seeds and of dont_filter requests, bucket N of an exact set
--   q:P:HOST      list    queued requests of a host with priority P: 5 bytes sequence, 8 bytes id, payload
--   returned:HOST zset    queued requests that were leased before: sequence + id, by -priority
--   q_for:NEED:P:HOST, returned_for:NEED:HOST   the same of requests that have a need
--   needs         hash    need -> how many requests of it are queued
--   requests      hash    id -> its row, packed (3_requests.lua): every request that is returned, delayed, suspect,
--                         failed or excluded
--   delayed       zset    id by the time it may be queued again
--   suspects      zset    id by sequence: queued, and to be leased alone
--   suspects_for:NEED     the same of requests that have a need
--   away:HOST     zset    id by sequence: what is delayed or suspect of one host
--   failed        zset    id by sequence
--   failed:CLASS  zset    the same of one class of error
--   tops          zset    priority by -priority: where ready:P is not empty, and some where it is
--   ready:P       zset    host keys that may be asked now and whose best request has priority P, by last served epoch
--   tops_for:NEED, ready_for:NEED:P   the same of hosts that have requests of a need, by the best of these
--   waiting       zset    host keys by due time
--   addresses     hash    IP address -> how many leases are counted under it (the setting per_ip)
--   parked        zset    hosts that wait for their address, by their order there (2_hosts.lua); all scores are 0
--   given_up      zset    host keys: what waits for them is being buried, a piece at a time
--   reasons       hash    host key -> msgpack array: class and text of the error that a host was given up for, or of its
--                         budget that is spent
--   holds         hash    lease key -> the lease, packed (4_leases.lua): all current ones. A lease key is the 8 bytes of
--                         the id for a page, "g" + host key for a gate, "s" for the seeding
--   deadlines     zset    workers, by a time before which none of their leases ends
--   held:WORKER   set     lease keys
--   paced:WORKER  zset    of a shard: hosts whose delay the worker keeps, by the time of its last commit there
--   answers       hash    worker -> what it was last answered, packed (4_leases.lua), in case that was lost on its way
--   alone         set     workers that hold a lease which nothing may stand beside
--   staged:EPOCH  list    items of a page that is committed in parts: 1 byte kind, record
--   items         list    the outbox: 8 bytes id, 4 bytes place, 1 byte kind (ItemKind in Python), record; the first has
--                         position job.first_item
--   sinks         hash    target -> msgpack array: position, closed, owner, owned until, items rejected, what its owner
--                         waits for
--   marks         hash    target -> the sink's own mark
--   intakes       hash    source -> msgpack array: its record (intake_records.lua)
--   intake_marks  hash    source -> how far it was read, as its reader has written it
--   proxies       hash    id -> msgpack array: a proxy of the job's pool (8_proxies.lua), with its password
--   host_proxies  hash    host key -> msgpack array: bans and failures of proxies there
--   jars, jar_order, jar_domains   cookies (9_jars.lua)
--   sessions      hash    sessions that are handed out (10_sessions.lua)
--   permits       list    permitted host keys, in the order they came
--   tally         hash    counters of accepted commits
--   errors        hash    class -> how many have failed of it
--   notable       zset    a few slow and troubled hosts, by how much so
--   permitted     set     at the lead of a job with shards: what stands in permits
--   targets       hash    at the lead of a job with shards: target -> where it is in all outboxes (6_shards.lua)
--
-- A host stands in ready:P, in waiting, in parked, in given_up, or in none of them; one that is ready or parked, and has
-- requests with needs, in ready_for:NEED:P or once more in parked for each of them. A request that is not done or redirected
-- is in seen:N, and in exactly one of q:P:HOST (q_for:NEED:P:HOST), requests, holds.
--
-- Lua does not roll back. Nothing below can fail between the first write and the last: a store that is full,
-- read-only or refusing writes says so at the first one.
--
-- ARGV[1] is the time, for tests only; empty: the server's clock decides.
--
-- Names in capitals are numbers, and a few texts. scripts.py puts them in: those that no file here defines (BATCH, READY,
-- BLOCK_LIMIT, ...) are defined in Python, whose rules use them too.

local call = redis.call
local pack, unpacked = cmsgpack.pack, cmsgpack.unpack
local format = string.format
local BASE = string.sub(KEYS[1], 1, -4)
-- More than any server grants, and their numbers fit in six bytes until 2059.
local EPOCHS_A_SECOND = 100000
local J, RUN, S, now
-- Where a shard's requests were when its record was read.
local counted

-- From one epoch to the next: no two shards give the same one, each has its own remainder.
local function stride()
  return J.shards or 1
end

-- Time never goes back, and does not stand still when the server's clock was set back.
local function read_clock()
  local wall
  if ARGV[1] ~= '' then
    wall = tonumber(ARGV[1])
  else
    local time = call('TIME')
    wall = time[1] + time[2] / 1000000
  end
  if wall >= J.clock then
    now = wall
  else
    now = J.clock + math.max(0, wall - J.wall)
  end
  J.clock, J.wall = now, wall
  -- Epochs follow the clock, so that none is given twice even if a crash took the newest ones back.
  if J.next_epoch then J.next_epoch = math.max(J.next_epoch, math.floor(now * EPOCHS_A_SECOND)) end
  if J.shards and J.next_epoch then J.next_epoch = J.next_epoch + (J.shard - J.next_epoch) % stride() end
end

local function places_of(job)
  return table.concat({job.queued, job.delayed, job.leased, job.done, job.redirected, job.failed, job.excluded}, ' ')
end

-- The reign of the server: a name that it has from one start or promotion to the next, and that never returns. A server
-- that is promoted may lack the newest writes of the one before, so what was learnt in another reign may not be true any
-- more. The run id is no such name: a server that is paused, or that a planned failover leaves, comes back with it.
-- Empty where the user must not ask: then the client takes each connection for a reign of its own.
local present_reign

local function reign()
  if not present_reign then
    local told = redis.pcall('INFO', 'replication')
    present_reign = type(told) == 'string' and string.match(told, 'master_replid:(%x+)') or ''
  end
  return present_reign
end

-- A shard notes in J.reigns when each of the newest reigns began: {its number, its name, the newest item then, and how
-- many links other shards had added until then}. The name is a hash of all reigns so far. So if a name that was noted
-- elsewhere stands here, everything that was there when the reign after it began is still there.
local R_NUMBER, R_NAME, R_POSITION, R_FOREIGN = 1, 2, 3, 4
local NOTED_REIGNS = 8

local function note_reign()
  local reigns, replid = J.reigns, reign()
  if replid == '' or replid == J.replid then return end
  local newest = reigns[#reigns]
  local name = string.sub(redis.sha1hex((newest and newest[R_NAME] or '') .. replid), 1, 10)
  reigns[#reigns + 1] = {newest and newest[R_NUMBER] + 1 or 1, name, J.position, J.foreign}
  if #reigns > NOTED_REIGNS then table.remove(reigns, 1) end
  J.replid = replid
end

local function use_job(job)
  J, S = job, job.settings
  RUN = BASE .. format('%d', job.run) .. ':'
end

local function load_job()
  -- While a Redis Cluster moves keys to another node, a script fails at the first that is gone from here, half done. A key
  -- that is never there is missed at once, before anything is written; and the client waits until all have moved.
  call('EXISTS', BASE .. 'never')
  local stored = call('GET', KEYS[1])
  if not stored then return false end
  local job = unpacked(stored)
  if job.format ~= FORMAT then error('the job has another format: ' .. tostring(job.format)) end
  job.crowded, job.samples = job.crowded or {}, job.samples or {0, 0, 0, 0}
  use_job(job)
  read_clock()
  if J.shards then
    counted = places_of(J)
    note_reign()
  end
  return true
end

local function save_job()
  if counted and counted ~= places_of(J) then J.changes = J.changes + 1 end
  call('SET', KEYS[1], pack(J))
end

-- A job's record in a new run, or in its first.
local function new_job(old, secret, bucket_mean, settings)
  return {
    state = 'running', run = old and old.run + 1 or 1, seeding = true, seed_losses = 0,
    started_at = now, ended_at = 0, reason = '',
    queued = 0, delayed = 0, leased = 0, done = 0, redirected = 0, failed = 0, excluded = 0,
    -- Sequences. Epochs and positions go on in a new run, so that nothing of an old one fits.
    next_seq = 1, next_epoch = old and old.next_epoch or 1, position = old and old.position or 0,
    first_item = (old and old.position or 0) + 1,
    -- For people: hosts with long queues, and two samples for the rate of now {at, done, at, done}.
    crowded = {}, samples = {0, 0, 0, 0},
    -- Later also: short_workers {worker = {slots, missing, asks at, quality}}, shared_at, held_seconds (4_leases.lua).
    -- shortened {at, epoch, until}, reschedule_after: after a delay was shortened (JobRow in frontier/tables.py).
    -- closing {owner, until}: who calls on_close of the finished run; closed: it was called.
    -- pooled: a proxy was registered, so nothing is leased without one; proxy_serial, proxy_draw, proxy_hosts (JobRow).
    -- paused_hosts, given_up_hosts: how many an operator has paused or given up, unless none is.
    -- jars: how many there are, if there ever was one; jar_version: of the newest change.
    -- And needy: how many queued requests have a need, unless none has; intakes: how many are open, if there ever was one.
    -- The record of the exact set in seen:N, and of the one in delivered:N if there is any.
    seen = exact.new(bucket_mean), delivered = old and old.delivered,
    clock = J.clock, wall = J.wall, secret = old and old.secret or secret,
    spec_version = 1, settings = settings, format = FORMAT,
  }
end

-- What a shard's record has besides (6_shards.lua).
local function as_shard(job, old, shards, shard)
  job.shards, job.shard, job.version, job.changes = shards, shard, old and old.version or 0, old and old.changes or 0
  job.sealed, job.seal, job.sealing = 0, old and old.seal or 0, false
  job.allotted, job.allotment, job.given, job.permits, job.complete = 0, 0, {}, 0, false
  job.reigns, job.replid, job.foreign, job.relied = old and old.reigns or {}, old and old.replid, old and old.foreign or 0, {}
  return job
end

-- Times travel as text: a number in a reply would lose its fraction.
local function text(number)
  return format('%.17g', number)
end

-- Priorities may be larger than what Lua writes in full by itself; and a negated 0 would be written as "-0".
local function level(priority)
  if priority == 0 then return '0' end
  return format('%.0f', priority + 0)
end

-- One command for many arguments, in pieces that Lua can unpack.
local function bulk(command, key, arguments)
  local total = #arguments
  if total <= BATCH then
    if total > 0 then call(command, key, unpack(arguments)) end
    return
  end
  for first = 1, total, BATCH do
    call(command, key, unpack(arguments, first, math.min(first + BATCH - 1, total)))
  end
end

-- Values of a hash, in the order of the fields; false for what is not there.
local function fetch(key, fields)
  local total = #fields
  if total == 0 then return {} end
  if total <= BATCH then return call('HMGET', key, unpack(fields)) end
  local found = {}
  for first = 1, total, BATCH do
    for _, value in ipairs(call('HMGET', key, unpack(fields, first, math.min(first + BATCH - 1, total)))) do
      found[#found + 1] = value
    end
  end
  return found
end

-- The workers that were heard from: id, heard at, number of leases, heartbeat, ...
local function list_workers()
  local workers, listed = call('ZRANGE', BASE .. 'workers', 0, -1, 'WITHSCORES'), {}
  local names = {}
  for place = 1, #workers, 2 do names[#names + 1] = workers[place] end
  local heartbeats = fetch(BASE .. 'heartbeats', names)
  for place, worker in ipairs(names) do
    listed[#listed + 1] = worker
    listed[#listed + 1] = workers[2 * place]
    listed[#listed + 1] = call('SCARD', RUN .. 'held:' .. worker)
    listed[#listed + 1] = heartbeats[place]
  end
  return listed
end

local tallies = {}

local function bump(name, amount)
  tallies[name] = (tallies[name] or 0) + amount
end

local function save_tallies()
  local key = RUN .. 'tally'
  for name, amount in pairs(tallies) do
    -- Names of spiders and hooks are bounded (model/counters.py); all others are known.
    local prefix = string.match(name, '^stat:') or string.match(name, '^hook:')
    if prefix and call('HEXISTS', key, name) == 0 and call('HLEN', key) >= MAX_COUNTERS then name = prefix .. OTHER end
    call('HINCRBY', key, name, amount)
  end
  tallies = {}
end

-- Two samples of what is done, for the rate of now: the older is five to ten seconds old while pages are committed.
local function sample_rate()
  local samples = J.samples
  if now - samples[3] >= RATE_SAMPLE_SECONDS then J.samples = {samples[3], samples[4], now, J.done} end
end

local function reopen()
  if J.state == 'finished' then J.state, J.ended_at, J.closing, J.closed = 'running', 0, nil, nil end
end

local function seeding_over(problem)
  J.seeding = false
  if problem ~= '' then J.reason = problem end
end

-- How many pages may end done here; nil: any number. A shard has its part of the job's number (share.lua).
local function page_limit()
  return S.max_pages and (J.shards and J.allotted or S.max_pages)
end

-- Requests may come that no commit adds.
local function awaits_requests()
  return J.seeding or (J.intakes or 0) > 0
end

-- Promise 6, and the ends of a drain and of a limit. A shard does not know the others: the client asks them all.
local function settle()
  if J.state == 'finished' or J.shards then return end
  if not awaits_requests() and J.queued + J.delayed + J.leased == 0 then
    J.state, J.ended_at = 'finished', now
  elseif J.state == 'running' and S.max_pages and J.done >= S.max_pages then
    J.state, J.ended_at, J.reason = 'stopped', now, 'max_pages'
  elseif J.state == 'draining' and call('HLEN', RUN .. 'holds') == 0 then
    J.state, J.ended_at = 'stopped', now
  end
end
