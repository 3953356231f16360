-- Leases: granting, ending, losing, and the answer to a worker that asks for work.
--
--   holds, deadlines, held:WORKER, answers, alone, staged:EPOCH, workers, tops, ready:P, waiting, sinks, permits: see
--   1_job.lua

-- STORED and ROW_AT: the packed lease and where its row begins there (beyond its end: it has none).
-- COUNTED: the IP address that it is counted under, or nothing. HOLD_PROXY: the proxy that it goes through, or nothing.
-- TAKEN: the session that was taken for it, or nothing.
local EPOCH, WORKER, HOLD_HOST, LEASED_AT, ALONE, STAGED, DEADLINE, STORED, ROW_AT = 1, 2, 3, 4, 5, 6, 7, 8, 9
local COUNTED, HOLD_PROXY, TAKEN = 10, 11, 12
local POSITION, CLOSED, OWNER, OWNED_UNTIL, REJECTED, TROUBLE = 1, 2, 3, 4, 5, 6
local SEED_KEY = 's'

local ended, ended_of = {}, {}
local leases, new_fields, new_keys = {}, {}, {}
-- For a job with shards: who asks, whether something here goes before all that other shards have, and whether more
-- would have been granted if this shard's part of max_pages were larger.
local asked, goes_first, short = false, false, false
-- Functions of 9_jars.lua and of 10_sessions.lua; `logins`: sessions that the worker of this call is asked to log in, and
-- their generations.
local jars, sessions = {}, {logins = {}}
-- So many hosts were passed over, because their addresses are full, that others were not reached.
local in_haste = false

local function work_of(lease_key)
  if lease_key == SEED_KEY then return SEED end
  return #lease_key == 8 and PAGE or ROBOTS
end

-- epoch, leased at, deadline, marks (a sum of 1 for alone, 2 for counted under an address, 4 for a proxy, 8 for a session),
-- staged, worker, host key; then the address, the proxy and the session, if they are marked, and the row, if it is a page's
local HOLD_FORM = '<I6ddBBI2c0I2c0'

local function pack_hold(epoch, leased_at, deadline, alone, staged, worker, host, address, proxy, taken)
  proxy, taken = proxy or '', taken or ''
  local marks = (alone and 1 or 0) + (address ~= '' and 2 or 0) + (proxy ~= '' and 4 or 0) + (taken ~= '' and 8 or 0)
  local head = struct.pack(
    HOLD_FORM, epoch, leased_at, deadline, marks, staged and 1 or 0, #worker, worker, #host, host
  )
  if address ~= '' then head = head .. struct.pack('Bc0', #address, address) end
  if proxy ~= '' then head = head .. struct.pack('Bc0', #proxy, proxy) end
  return taken == '' and head or head .. struct.pack('Bc0', #taken, taken)
end

local function unpack_hold(stored)
  local epoch, leased_at, deadline, marks, staged, worker, host, rest = struct.unpack(HOLD_FORM, stored)
  local address, proxy, taken = '', '', ''
  if marks > 1 then
    if marks % 4 > 1 then address, rest = struct.unpack('Bc0', stored, rest) end
    if marks % 8 > 3 then proxy, rest = struct.unpack('Bc0', stored, rest) end
    if marks > 7 then taken, rest = struct.unpack('Bc0', stored, rest) end
  end
  return {epoch, worker, host, leased_at, marks % 2 == 1, staged == 1, deadline, stored, rest, address, proxy, taken}
end

-- Read only when it is needed: most requests end done, and then it is not.
local function row_of(hold)
  return unpack_row(hold[STORED], hold[ROW_AT])
end

local function load_holds(keys)
  local holds = {}
  for place, stored in ipairs(fetch(RUN .. 'holds', keys)) do holds[place] = stored and unpack_hold(stored) end
  return holds
end

-- After a change of its deadline or of what it has staged: the row stays as it is.
local function save_hold(lease_key, hold)
  local head = pack_hold(
    hold[EPOCH], hold[LEASED_AT], hold[DEADLINE], hold[ALONE], hold[STAGED], hold[WORKER], hold[HOLD_HOST],
    hold[COUNTED], hold[HOLD_PROXY], hold[TAKEN]
  )
  call('HSET', RUN .. 'holds', lease_key, head .. string.sub(hold[STORED], hold[ROW_AT]))
end

local function end_hold(lease_key, hold)
  ended[#ended + 1] = lease_key
  local of_worker = ended_of[hold[WORKER]] or {}
  ended_of[hold[WORKER]] = of_worker
  of_worker[#of_worker + 1] = lease_key
  if hold[ALONE] then call('SREM', RUN .. 'alone', hold[WORKER]) end
  -- What a lost or released lease has staged was never seen by anyone.
  if hold[STAGED] then call('DEL', RUN .. 'staged:' .. format('%d', hold[EPOCH])) end
  if lease_key ~= SEED_KEY then
    local h = host_of(hold[HOLD_HOST])
    h[IN_FLIGHT] = h[IN_FLIGHT] - 1
    if hold[COUNTED] ~= '' then addresses.count(hold[COUNTED], -1) end
    if hold[HOLD_PROXY] ~= '' then proxies.give_back(hold[HOLD_PROXY]) end
    if hold[TAKEN] ~= '' then sessions.ended(hold[TAKEN]) end
    if work_of(lease_key) == ROBOTS then h[GATE] = 0 end
  end
end

local function save_holds()
  if #ended == 0 then return end
  bulk('HDEL', RUN .. 'holds', ended)
  for worker, keys in pairs(ended_of) do bulk('SREM', RUN .. 'held:' .. worker, keys) end
  ended, ended_of = {}, {}
end

-- The end of every script that writes.
local function close()
  save_hosts()
  save_holds()
  save_notable()
  save_tallies()
  seen.save()
  if proxies.pool then proxies.save() end
  settle()
  save_job()
end

local function forget_worker(worker)
  call('ZREM', BASE .. 'workers', worker)
  call('HDEL', BASE .. 'heartbeats', worker)
  call('HDEL', RUN .. 'answers', worker)
  if J.short_workers then J.short_workers[worker] = nil end
end

-- Work goes back as if it had never been leased, but for the delay of a host that it has touched.
local function hand_back(key, hold, late, was_touched)
  if key ~= SEED_KEY then
    local h = host_of(hold[HOLD_HOST])
    if not was_touched then politeness.given_back(h, hold[EPOCH]) end
    if late then politeness.came_late(h) end
    if hold[TAKEN] ~= '' and not was_touched then sessions.given_back(hold[TAKEN], row_of(hold)[NEED]) end
  end
  end_hold(key, hold)
  if work_of(key) == PAGE then requeue(key, row_of(hold)) end
end

-- ---- losses

local function lose(keys, holds)
  local given_up = {}
  for place, key in ipairs(keys) do
    local hold = holds[place]
    end_hold(key, hold)
    local work = work_of(key)
    if work == SEED then
      J.seed_losses = J.seed_losses + 1
      if J.seed_losses >= LOSSES_IN_ALL then seeding_over('start() lost its worker every time') end
    elseif work == ROBOTS then
      -- A robots.txt that kills its reader must not do so for ever.
      local h = host_of(hold[HOLD_HOST])
      h[GATE_LOSSES] = h[GATE_LOSSES] + 1
      if h[GATE_LOSSES] >= LOSSES_IN_ALL and h[HALT] ~= HALT_PAUSED then given_up[#given_up + 1] = hold[HOLD_HOST] end
    else
      local row = row_of(hold)
      row[LOSSES] = row[LOSSES] + 1
      if hold[ALONE] then row[LOSSES_ALONE] = row[LOSSES_ALONE] + 1 end
      if row[LOSSES_ALONE] >= LOSSES_WHILE_ALONE then
        local reason = format('lost its worker %d times, the last ones with this page alone', row[LOSSES])
        die(key, row, 'lost', reason)
      else
        requeue(key, row)
      end
    end
  end
  for _, host in ipairs(given_up) do give_up(host, 'lost', 'its robots.txt lost the worker every time') end
  return #keys
end

-- Leases are looked for by their workers: an index of all would be written twice for each page, and is read so
-- rarely. A worker that renews is looked at about once in the length of a lease. Answers how many, and whose:
-- {worker, how many, ...}.
local function reap()
  local keys, holds, whose, looked = {}, {}, {}, 0
  for _, worker in ipairs(call('ZRANGEBYSCORE', RUN .. 'deadlines', '-inf', now, 'LIMIT', 0, BATCH)) do
    if looked >= BATCH then break end
    local held, first, before = call('SMEMBERS', RUN .. 'held:' .. worker), math.huge, #keys
    looked = looked + #held
    for place, hold in ipairs(load_holds(held)) do
      if hold[DEADLINE] <= now then
        keys[#keys + 1] = held[place]
        holds[#holds + 1] = hold
      else
        first = math.min(first, hold[DEADLINE])
      end
    end
    if #keys > before then
      whose[#whose + 1] = worker
      whose[#whose + 1] = #keys - before
    end
    if first == math.huge then
      call('ZREM', RUN .. 'deadlines', worker)
    else
      call('ZADD', RUN .. 'deadlines', first, worker)
    end
  end
  return lose(keys, holds), whose
end

-- ---- granting

-- One lease more for the answer: work, id or nothing, epoch, host key, payload, attempts, start window, robots, trusted,
-- the distance that the worker keeps, the record of the page, its proxy, the version of its jars, its session.
local function tell_lease(lease_key, epoch, host_key, row, window, distance, proxy, taken)
  local place, robots, trusted = #leases, 0, 0
  if host_key ~= '' then
    local h = hosts[host_key]
    -- An earlier run may have read a file that this one was told to ignore.
    robots, trusted = S.obey_robots and h[ROBOTS_VERSION] or 0, h[TRUSTED]
  end
  leases[place + 1] = work_of(lease_key)
  leases[place + 2] = row and lease_key or ''
  leases[place + 3] = epoch
  leases[place + 4] = host_key
  leases[place + 5] = row and row[PAYLOAD] or ''
  leases[place + 6] = row and row[ATTEMPTS] or 0
  leases[place + 7] = window and text(window) or ''
  leases[place + 8] = robots
  leases[place + 9] = trusted
  leases[place + 10] = distance > 0 and text(distance) or ''
  leases[place + 11] = row and S.recrawl and call('HGET', BASE .. 'records', lease_key) or ''
  leases[place + 12] = proxy
  leases[place + 13] = row and J.jars and jars.version_of(host_key) or 0
  leases[place + 14] = taken
end

local function hold_for(worker, lease_key, host_key, row, alone)
  local epoch = J.next_epoch
  J.next_epoch = epoch + stride()
  local window, address, distance, proxy, taken = false, '', 0, '', ''
  if row and S.sessions and row[NEED] ~= '' then taken = sessions.grant(row[NEED], epoch) end
  if host_key ~= '' then
    local h = host_of(host_key)
    window, distance = politeness.granted(h, epoch, worker)
    pace.note(host_key, h, worker)
    if S.per_ip and h[ADDRESS] ~= '' then
      address = h[ADDRESS]
      addresses.count(address, 1)
      addresses.granted[host_key] = true
    end
    if J.pooled or S.proxy_pool then
      proxy = taken ~= '' and sessions.pick_proxy(taken, host_key) or proxies.pick(host_key, '')
    end
  end
  new_fields[#new_fields + 1] = lease_key
  new_fields[#new_fields + 1] = pack_hold(
    epoch, now, now + S.lease_seconds, alone, false, worker, host_key, address, proxy, taken
  ) .. (row and pack_row(row) or '')
  new_keys[#new_keys + 1] = lease_key
  if alone then call('SADD', RUN .. 'alone', worker) end
  tell_lease(lease_key, epoch, host_key, row, window, distance, proxy, taken)
end

local function save_leases(worker)
  if #new_keys == 0 then return end
  bulk('HSET', RUN .. 'holds', new_fields)
  bulk('SADD', RUN .. 'held:' .. worker, new_keys)
  call('ZADD', RUN .. 'deadlines', 'LT', now + S.lease_seconds, worker)
  new_fields, new_keys = {}, {}
end

local function grant_row(worker, key, id, row, alone)
  move(row, AT_LEASED)
  hold_for(worker, id, key, row, alone)
end

local function grant_gate(worker, key, alone)
  hold_for(worker, 'g' .. key, key, nil, alone)
  host_of(key)[GATE] = 1
end

-- Delayed requests and waiting hosts whose time has come.
local function wake()
  local ids = call('ZRANGEBYSCORE', RUN .. 'delayed', '-inf', now, 'LIMIT', 0, BATCH)
  if #ids > 0 then
    bulk('ZREM', RUN .. 'delayed', ids)
    for place, row in ipairs(load_rows(ids)) do
      come_back(host_of(row[HOST]), ids[place], row)
      requeue(ids[place], row)
    end
  end
  local due = call('ZRANGEBYSCORE', RUN .. 'waiting', '-inf', now, 'LIMIT', 0, BATCH)
  load_hosts(due)
  for _, key in ipairs(due) do host_of(key) end
  if J.parked and not S.per_ip then
    -- The limit was lifted.
    for _, name in ipairs(call('ZRANGE', RUN .. 'parked', 0, BATCH - 1)) do host_of(addresses.parked_key(name)) end
  end
  if J.reschedule_after then pace.reschedule() end
  save_hosts()
  save_holds()
end

-- Hosts in the order in which they shall be served: one queue per priority, each by last served. A host that is
-- served again goes to the end of its queue: its epoch is the newest of all.
local function ready_hosts(limit)
  if J.needy and needs.served[1] then return needs.ready_hosts(limit) end
  local queues, order, found, passed_over = {}, {}, 0, 0
  local first = 0
  while found < limit do
    local tops = call('ZRANGE', RUN .. 'tops', first, first + 15)
    if #tops == 0 then break end
    for _, top in ipairs(tops) do
      local keys = call('ZRANGE', RUN .. 'ready:' .. top, 0, limit - found - 1)
      if #keys == 0 then
        call('ZREM', RUN .. 'tops', top)
      else
        first = first + 1
        load_hosts(keys)
        local queue = {at = 1}
        for _, key in ipairs(keys) do
          -- The limits may have been lowered, or its address have been filled, since the host was put down as ready.
          if phase_of(hosts[key]) == READY then
            queue[#queue + 1] = key
          else
            host_of(key)
            passed_over = passed_over + 1
          end
        end
        queue.fresh = #queue
        queues[tonumber(top)] = queue
        order[#order + 1] = tonumber(top)
        found = found + #keys
        if found >= limit then break end
      end
    end
  end
  return queues, order, passed_over
end

local function serve_again(queues, order, key, top)
  local queue = queues[top]
  if not queue then
    queue = {at = 1, fresh = 0}
    queues[top] = queue
    local place = 1
    while order[place] and order[place] > top do place = place + 1 end
    table.insert(order, place, top)
  end
  queue[#queue + 1] = key
end

-- The next host of the highest priority, out of its queue; nil when there is none (from the floor up). `only_fresh`: none
-- either when the next one was served by this call already.
local function next_host(queues, order, floor, only_fresh)
  for _, top in ipairs(order) do
    if floor and top < floor then return end
    local queue = queues[top]
    local key = queue[queue.at]
    if key then
      if only_fresh and queue.at > queue.fresh then return end
      queue[queue.at] = false
      queue.at = queue.at + 1
      return key
    end
  end
end

-- ---- shares of the workers while others are short (policy/shares.py has the reasons)

-- Of a short worker, J.short_workers[worker].
local SLOTS, MISSING, ASKS_AT, QUALITY = 1, 2, 3, 4
-- Of the worker that asks; slots 0: it gets all there is.
local share = {slots = 0, quality = 1, is_short = false}

function share.quality_after(quality, good, outcomes)
  return math.max(LEAST_QUALITY, (quality * OUTCOMES_AVERAGED + good) / (OUTCOMES_AVERAGED + outcomes))
end

function share.others_are_short(worker)
  for name in pairs(J.short_workers or {}) do
    if name ~= worker then return true end
  end
  return false
end

-- The average of how long pages are held, after `count` more that were held for `total` seconds together.
function share.held_after(average, total, count)
  if count == 0 then return average end
  local averaged = average ~= 0 and OUTCOMES_AVERAGED or 0
  return (average * averaged + total) / (averaged + count)
end

-- The short workers that something may be left for: those that will take it before long, as pages go.
function share.claimants()
  local idle_seconds, found = IDLE_PART * (J.held_seconds or 0), {}
  if idle_seconds < SHARED_POLL_SECONDS then return found end
  for _, other in pairs(J.short_workers) do
    local is_busy, asks_at = other[MISSING] < other[SLOTS], other[ASKS_AT]
    if asks_at > now - SHORT_SECONDS and (is_busy or asks_at <= now + idle_seconds) then found[#found + 1] = other end
  end
  return found
end

function share.poll_seconds()
  return share.is_short and (J.shared_at or 0) > now - SHORT_SECONDS and SHARED_POLL_SECONDS or POLL_SECONDS
end

-- How many requests of these hosts are ready, as far as they are wanted; with a limit of addresses, one of each.
function share.count(queues, limit)
  local found, ready = 0, 0
  for _, queue in pairs(queues) do found = found + queue.fresh end
  local most = math.floor(limit / math.max(1, found)) + 1
  for _, queue in pairs(queues) do
    for place = 1, queue.fresh do
      local h = hosts[queue[place]]
      local single = needs_gate(h) or delay_of(h) > 0 or S.target_concurrency
      local room = S.per_ip and 1 or single and 1 or (S.per_host or select(2, politeness.default_pace(h))) - h[IN_FLIGHT]
      ready = ready + math.min(most, h[QUEUED], room)
    end
  end
  return ready
end

-- How many requests of hosts that are ready the worker may be granted, of those it wants.
function share.of(wanted, queues)
  if share.slots == 0 or not J.short_workers or needs.only then return wanted end
  local others = share.claimants()
  if #others == 0 then return wanted end
  local ready, part = share.count(queues, wanted), math.floor(now) * GOLDEN_RATIO % 1
  local busy = math.max(0, share.slots - wanted)
  local least, most = 0, math.min(wanted, ready)
  while least < most do
    local count = math.floor((least + most + 1) / 2)
    local level, before = (busy + count - 1 + part) / (share.slots * share.quality), 0
    for _, other in ipairs(others) do
      local filled = math.max(0, other[SLOTS] - other[MISSING])
      local belongs = math.ceil(level * (other[SLOTS] * other[QUALITY]) - part) - filled
      before = before + math.max(0, math.min(other[MISSING], belongs))
    end
    if before + count <= ready then least = count else most = count - 1 end
  end
  if busy == 0 then least = math.max(least, math.min(ready, 1)) end
  if least < math.min(wanted, ready) then J.shared_at = now end
  return least
end

function share.forget(worker)
  if not J.short_workers then return end
  J.short_workers[worker] = nil
  if not next(J.short_workers) then J.short_workers = nil end
end

function share.note_missing(worker, missing)
  local short, known = J.short_workers or {}, 0
  for _ in pairs(short) do known = known + 1 end
  if known >= SHORT_WORKERS then
    for name, other in pairs(short) do
      if other[ASKS_AT] <= now - SHORT_SECONDS then short[name], known = nil, known - 1 end
    end
  end
  J.short_workers, share.is_short = short, true
  if known < SHORT_WORKERS then
    short[worker] = {share.slots, missing, now + share.poll_seconds(), share.quality}
  end
end

-- Promise 5. `held` is what the worker has already; nil: it shall get nothing that is to be leased alone.
-- `floor`: other shards have something of this priority, so nothing below it is granted here.
local function grant_hosts(worker, limit, held, floor)
  save_hosts()
  if limit <= 0 then return 0 end
  local queues, order, passed_over = ready_hosts(limit)
  local count, too_few, ahead = 0, S.per_ip and passed_over > 0, {at = 1}
  local is_pooled = J.pooled or S.proxy_pool
  -- What is granted ahead of a delay is nobody else's, and no part of the share.
  local last = share.of(limit, queues)
  load_hosts(pace.hosts)
  for _, key in ipairs(pace.hosts) do
    if pace.may_go_on(key, hosts[key], worker, floor) then ahead[#ahead + 1] = key end
  end
  while count < limit do
    -- `limit` candidates are enough: each grant uses up at most one that was not served yet. So does a host whose
    -- address another one has filled. Then there are too few, and others are looked for before one is served again.
    local key = count < last and next_host(queues, order, floor, too_few)
    local h = key and host_of(key)
    if not key and too_few and count < last then
      if passed_over >= BATCH then
        in_haste = true
        break
      end
      save_hosts()
      local more
      queues, order, more = ready_hosts(last - count)
      too_few, passed_over = more > 0, passed_over + more
    elseif not key and ahead[ahead.at] then
      -- None is ready: hosts come whose delay the worker keeps by itself.
      key, ahead.at = ahead[ahead.at], ahead.at + 1
      h = host_of(key)
      -- Its address may have been filled by another host meanwhile.
      if pace.may_go_on(key, h, worker, floor) and not (is_pooled and not proxies.can_serve(key, h)) then
        local need = h[NEEDS] and needs.first_of(key, h) or ''
        local id, row = take_head(key, h, need)
        grant_row(worker, key, id, row)
        count = count + 1
        find_top(key, h, need)
        if need ~= '' and S.sessions then sessions.leave_needs() end
        if pace.may_go_on(key, h, worker, floor) then ahead[#ahead + 1] = key end
      end
    elseif not key then
      break
    elseif S.per_ip and phase_of(h) ~= READY then
      too_few, passed_over = true, passed_over + 1
    elseif is_pooled and not proxies.can_serve(key, h) then
      if proxies.is_exhausted then break end
      -- Others, which were not reached, may have one.
      in_haste = true
    elseif needs_gate(h) then
      if h[GATE_LOSSES] < LOSSES_BEFORE_ALONE then
        grant_gate(worker, key)
        count = count + 1
      elseif held then
        if held == 0 and #leases == 0 then grant_gate(worker, key, true) end
        goes_first = true
        break
      end
    else
      local need = h[NEEDS] and needs.first_of(key, h) or ''
      local id, row = take_head(key, h, need)
      grant_row(worker, key, id, row)
      count = count + 1
      find_top(key, h, need)
      local top = needs.top(h)
      if need ~= '' and S.sessions and sessions.leave_needs() then
        -- It has taken the last session that served a need: hosts that have nothing else are not to be met.
        save_hosts()
        queues, order, passed_over = ready_hosts(limit - count)
      elseif top and phase_of(h) == READY then
        serve_again(queues, order, key, top)
      elseif pace.may_go_on(key, h, worker, floor) then
        ahead[#ahead + 1] = key
      end
    end
  end
  if last < limit and count < limit and needs.served[1] and J.needy and not goes_first and not in_haste then
    -- Who is short may have nothing that could serve the others.
    needs.only = true
    count = count + grant_hosts(worker, limit - count, held, floor)
    needs.only = false
  end
  if share.slots > 0 and count < limit and not needs.only then share.note_missing(worker, limit - count) end
  return count
end

-- The first suspect that could start now.
local function find_suspect()
  local ids = call('ZRANGE', RUN .. 'suspects', 0, SUSPECTS_TRIED - 1)
  if J.needy and needs.served[1] then ids = needs.suspects() end
  for place, row in ipairs(load_rows(ids)) do
    local h = host_of(row[HOST])
    if budgets.is_stopped(h) then
      -- It stands in no queue, so nothing else would tell that it is not to be leased any more.
      mark_stopped(row[HOST], h)
      burying = true
    elseif has_room(h) and due_at(h) <= now and not addresses.is_full(h)
      and not ((J.pooled or S.proxy_pool) and not proxies.can_serve(row[HOST], h)) then
      return ids[place], row
    end
  end
end

local function grant_suspect(worker, id, row)
  local key = row[HOST]
  local h = host_of(key)
  if needs_gate(h) then
    return grant_gate(worker, key, h[GATE_LOSSES] >= LOSSES_BEFORE_ALONE)
  end
  call('ZREM', row[NEED] == '' and RUN .. 'suspects' or needs.suspects_of(row[NEED]), id)
  call('HDEL', RUN .. 'requests', id)
  come_back(h, id, row)
  grant_row(worker, key, id, row, true)
end

-- `others`: what the worker does in other shards: {leases it holds there, whether it seeds, the priority below which they
-- have something better}.
local function grant(worker, limit, others)
  -- Whether it is short will be seen.
  if J.short_workers and J.short_workers[worker] then
    share.quality = J.short_workers[worker][QUALITY]
    share.forget(worker)
  end
  if limit <= 0 or call('SISMEMBER', RUN .. 'alone', worker) == 1 then return end
  if J.needy then sessions.serve() end
  local held = call('SCARD', RUN .. 'held:' .. worker) + others[1]
  if J.seeding then
    local seeder = load_holds({SEED_KEY})[1]
    if not seeder then
      -- What is to be leased alone waits until a worker holds nothing; until then it gets nothing more.
      if J.seed_losses >= LOSSES_BEFORE_ALONE then
        if held == 0 then hold_for(worker, SEED_KEY, '', nil, true) end
        goes_first = true
        return
      end
      hold_for(worker, SEED_KEY, '', nil)
      return grant_hosts(worker, limit - 1, nil, others[3])
    end
    others[2] = others[2] or seeder[WORKER] == worker
  end
  if others[2] then
    -- A start() may run for hours, and nothing is leased alone beside it: suspects wait, the others do not.
    return grant_hosts(worker, limit, nil, others[3])
  end
  local id, row = find_suspect()
  if id then
    if held == 0 then grant_suspect(worker, id, row) end
    goes_first = true
    return
  end
  grant_hosts(worker, limit, held, others[3])
end

local function load_sinks()
  local sinks, stored = {}, call('HGETALL', RUN .. 'sinks')
  for place = 1, #stored, 2 do sinks[stored[place]] = unpacked(stored[place + 1]) end
  return sinks
end

local function outbox_is_full()
  for _, sink in pairs(load_sinks()) do
    if J.position - sink[POSITION] >= S.max_outbox_items then return true end
  end
  return false
end

local function first_score(name)
  local first = call('ZRANGE', RUN .. name, 0, 0, 'WITHSCORES')
  return first[2] and math.max(0, tonumber(first[2]) - now) or POLL_SECONDS
end

-- When something may have become ready.
local function ask_again()
  -- Hosts are still being buried, were passed over, or may wait for too long: poll at once. The end of the job may be near.
  if burying or in_haste or J.reschedule_after then return 0 end
  return math.min(share.poll_seconds(), first_score('delayed'), first_score('waiting'))
end

-- What a worker that asks for work is told. `known`: permits that it was told of in run `run`. `again`: 1 if it was told
-- of these leases before.
-- Of a job in shards, permits are asked for once a call (read_permitted_hosts.lua), and not of each shard.
local function tell_grant(blocked_by, leased_at, deadline, run, known, recovered, again)
  if run ~= J.run then known = 0 end
  return {
    J.state, J.run, text(ask_again()), blocked_by, text(leased_at), text(deadline),
    J.shards and {} or call('LRANGE', RUN .. 'permits', known, -1), leases, recovered, call('ZCARD', BASE .. 'workers'), sessions.logins,
    reign(), again,
  }
end

-- The highest priority of a host that is ready; false for none.
local function ready_top(tops, ready)
  for _, top in ipairs(call('ZRANGE', RUN .. tops, 0, 15)) do
    if call('EXISTS', RUN .. ready .. top) == 1 then return top end
  end
  return false
end

-- Everything that is left, of this shard, waits at hosts that an operator has paused.
local function only_paused()
  if J.state ~= 'running' or awaits_requests() or J.queued == 0 or J.delayed > 0 or J.needy or burying
    -- A robots.txt that is being read is a lease too.
    or call('HLEN', RUN .. 'holds') > 0 or call('EXISTS', RUN .. 'waiting') == 1 or ready_top('tops', 'ready:') then
    return false
  end
  -- Suspects stand in no queue: their hosts may be in a back-off and idle.
  for _, row in ipairs(load_rows(call('ZRANGE', RUN .. 'suspects', 0, SUSPECTS_TRIED - 1))) do
    if read_host(call('HGET', BASE .. 'hosts', row[HOST]), row[HOST])[HALT] ~= HALT_PAUSED then return false end
  end
  return true
end

-- What may start now, and the state of the job. `others` is given for a shard only.
local function lease(worker, limit, run, known, others)
  call('ZADD', BASE .. 'workers', now, worker)
  local _, recovered = reap()
  bury_more()
  wake()
  settle()
  local blocked_by = ''
  if J.state == 'running' then
    if outbox_is_full() then
      blocked_by = 'sink'
    else
      local maximum = page_limit()
      if maximum and maximum - J.done - J.leased < limit then
        limit, short = maximum - J.done - J.leased, J.queued > 0 or J.seeding
      end
      if S.max_in_flight then limit = math.min(limit, S.max_in_flight - J.leased) end
      if J.shards then
        -- Its commit came in another call.
        local known = call('ZRANGEBYSCORE', RUN .. 'paced:' .. worker, text(now - AHEAD_SECONDS), '+inf')
        load_hosts(known)
        for _, key in ipairs(known) do pace.note(key, hosts[key], worker) end
      end
      grant(worker, limit, others or {0, false})
      if proxies.is_exhausted and #leases == 0 then blocked_by = 'proxy' end
    end
  end
  save_hosts()
  if J.paused_hosts and #leases == 0 and blocked_by == '' and only_paused() then blocked_by = PAUSED_HOSTS end
  save_leases(worker)
  return tell_grant(blocked_by, now, now + S.lease_seconds, run, known, recovered, 0)
end

-- ---- calls that are sent again
--
-- A client whose connection breaks cannot know whether its call was heard, and sends it again, with the same token; so
-- does a worker whose frontier has gone. The first one may have acted: then the second must not, or leases would be
-- granted that nobody knows of, and a commit refused that was accepted.
--
-- One call of a worker to a job in shards may come to a shard several times: as a commit, and then for leases. Its token
-- is then NUMBER/TOKEN, with another number each time, and what is remembered is the answer to all of them together.

-- first epoch that was granted, number of them, which outcomes were accepted, token
local ANSWER_FORM = '<I6I4I4c0'

local function token_of_call(token)
  return J.shards and string.match(token, '^%d+/(.*)$') or token
end

local answers = {}

-- What was answered before; nothing when it was some other call's answer. `whole`: whatever the number before the token.
function answers.recall(worker, token, whole)
  local stored = call('HGET', RUN .. 'answers', worker)
  if not stored then return end
  local first, count, accepted, rest = struct.unpack(ANSWER_FORM, stored)
  local known = string.sub(stored, rest)
  if known == token or (whole and token_of_call(known) == token_of_call(token)) then
    return {first = first, count = count, accepted = accepted}
  end
end

-- A call that neither ended nor granted anything may well be made twice.
function answers.remember(worker, token, accepted)
  local count = #leases / LEASE_FIELDS
  if count + #accepted == 0 then return end
  -- The newest epochs are those of this call, and none is left out.
  local first = J.next_epoch - count * stride()
  local earlier = J.shards and answers.recall(worker, token, true)
  if earlier then
    -- Others may have been granted something in between, but not this worker: it makes one call at a time.
    first, count = earlier.first, (J.next_epoch - earlier.first) / stride()
    if accepted == '' then accepted = earlier.accepted end
  end
  local record = struct.pack(ANSWER_FORM, first, count, #accepted, accepted) .. token
  call('HSET', RUN .. 'answers', worker, record)
end

-- The leases of an earlier answer, without those that have ended meanwhile.
local function lease_again(worker, earlier, run, known)
  local keys, of_hosts, still = call('SMEMBERS', RUN .. 'held:' .. worker), {}, {}
  for place, hold in ipairs(load_holds(keys)) do
    local nth = (hold[EPOCH] - earlier.first) / stride()
    if nth >= 0 and nth < earlier.count then
      still[#still + 1] = {keys[place], hold}
      if hold[HOLD_HOST] ~= '' then of_hosts[#of_hosts + 1] = hold[HOLD_HOST] end
    end
  end
  load_hosts(of_hosts)
  table.sort(still, function(one, other) return one[2][EPOCH] < other[2][EPOCH] end)
  local leased_at, deadline = now, now + S.lease_seconds
  for _, pair in ipairs(still) do
    local key, hold = pair[1], pair[2]
    local host_key = hold[HOLD_HOST]
    leased_at, deadline = hold[LEASED_AT], math.min(deadline, hold[DEADLINE])
    -- The window that was granted was not shorter than this one.
    local delay = host_key ~= '' and delay_of(hosts[host_key]) or 0
    local distance = delay > 0 and hosts[host_key][PACER] == worker and delay or 0
    local window = delay > 0 and FIRST_START_SECONDS
    local row = work_of(key) == PAGE and row_of(hold)
    tell_lease(key, hold[EPOCH], host_key, row, window, distance, hold[HOLD_PROXY], hold[TAKEN])
  end
  return tell_grant('', leased_at, deadline, run, known, {}, 1)
end
