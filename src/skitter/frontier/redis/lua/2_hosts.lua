-- Hosts: their records, where they stand, and the rules of politeness (policy/politeness.py has the reasons).
--
--   hosts, ready:P, tops, ready_for:NEED:P, tops_for:NEED, waiting, addresses, parked, given_up, q:P:HOST, needs, notable: see
--   1_job.lua
--
-- A record is packed by struct, which is three times as fast as msgpack, in one of two forms: a short one for hosts
-- that nothing is known of but a queue, and a long one, to which rare fields are appended as msgpack. Behind it stand
-- the pages that a host has had and the signs of a trap, once there are any.

local RUN_OF, QUEUED, IN_FLIGHT, TOP, SERVED, DUE, BLOCKED_UNTIL, STRUCK_AT = 1, 2, 3, 4, 5, 6, 7, 8
local STRIKES, BLOCKS, LATE, CRAWL_DELAY, ROBOTS_VERSION, ROBOTS_UNTIL = 9, 10, 11, 12, 13, 14
local GATE, GATE_LOSSES, TRUSTED, LATENCY, ADDRESS, HOST_ERROR, PHASE = 15, 16, 17, 18, 19, 20, 21
-- TRUSTED: 1 typed as a seed, 2 in the scope because a seed was redirected to it, 0 neither.
-- LEVELS: {priority, requests in its list, ...}, highest first, or false. AWAY: how many are delayed or suspect.
local LEVELS, AWAY = 22, 23
-- How often the pause of its next block is doubled.
local BACKOFF = 24
-- What its budget is spent on, and the signs of a trap (policy/host_budgets.py).
local PAGES, SIGNS = 25, 26
-- Requests that its burst still has, the end of the burst; the worker that keeps its delay by itself, or nothing.
local BURST_LEFT, BURST_UNTIL, PACER = 27, 28, 29
-- Its queues of requests that have a need: false, or {need = {[QUEUED], [TOP], [LEVELS]}}. QUEUED, TOP and LEVELS of the host
-- itself are those of requests without one.
local NEEDS = 30
-- An operator's order (model.host.Halt): 0 none, 1 paused, 2 given up. It belongs to the run.
local HALT = 31
-- 1 for a host whose name is public, else 0. It is packed with TRUSTED.
local PUBLIC = 32
-- GIVEN_UP stays until all that waits is buried, or the host is forgiven.
-- PARKED: it would be ready, but its IP address has as many requests in flight as S.per_ip allows.
-- The phases (IDLE, READY, WAITING, FULL, GIVEN_UP, PARKED) are those of model/host.py.
local CROWDED_HOSTS = 16

-- Of each host: its record, and the set it stands in with its score and its name there.
local hosts, stood_in, stood_at, stood_as = {}, {}, {}, {}
local touched, is_touched = {}, {}
-- Hosts that the worker of this call has just worked for, or was granted, and whose delay it keeps; in that order.
local pace = {hosts = {}, is_known = {}, round_trip_seconds = 0}
-- A function in a table is none of the 200 locals that a script may have, nor of the 60 outer names of a function.
local politeness = {}
-- The needs that the worker of this call can serve, and whether it is granted nothing else; and where hosts stand for theirs:
-- {set, score, name} each. 7_needs.lua has the functions.
local needs = {served = {}, only = false, stood = {}}
-- The pool of proxies, as far as it was read, and what has changed in it. 8_proxies.lua has the functions.
local proxies = {pool = false, ids = {}, of_hosts = {}, changed = {}, changed_hosts = {}, is_exhausted = false}
-- Of IP addresses: how many leases are counted under each, as far as it was read; which counts have changed; which may
-- have room for a host that is parked; and the hosts that were granted something under theirs by this call.
local addresses = {loads = {}, changed = {}, look_at = {}, granted = {}}

local function due_at(h)
  return math.max(h[DUE], h[BLOCKED_UNTIL])
end

function politeness.has_own_pace(settings)
  return settings.delay_seconds or settings.per_host or settings.target_concurrency
end

-- Delay and requests in flight where they are not set.
function politeness.default_pace(h)
  if h[PUBLIC] == 1 and not politeness.has_own_pace(S) and not (S.obey_robots and h[CRAWL_DELAY] > 0) then
    return PUBLIC_DELAY_SECONDS, PUBLIC_PER_HOST
  end
  return 0, PER_HOST
end

local function delay_of(h)
  local delay = S.delay_seconds or (politeness.default_pace(h))
  if S.obey_robots then delay = math.max(delay, h[CRAWL_DELAY]) end
  if S.target_concurrency then
    delay = math.max(delay, math.min(h[LATENCY] / S.target_concurrency, S.max_delay_seconds))
  end
  return delay
end

local function start_seconds(h)
  return math.min(FIRST_START_SECONDS * 2 ^ h[LATE], MAX_START_SECONDS)
end

-- ---- budgets

local budgets = {}

-- Some host may be stopped: there are budgets, or an operator has given one up.
function budgets.may_stop()
  return S.max_pages_per_host or S.trap_pages or J.given_up_hosts
end

-- nil: none.
function budgets.of(h)
  if not S.trap_pages or h[SIGNS] < S.trap_signs then return S.max_pages_per_host end
  return math.min(S.trap_pages, S.max_pages_per_host or math.huge)
end

function budgets.is_spent(h)
  local budget = budgets.of(h)
  return budget and h[PAGES] >= budget or false
end

-- What waits for the host is to be buried, whatever it answers.
function budgets.is_stopped(h)
  return h[HALT] == HALT_GIVEN_UP or budgets.is_spent(h)
end

-- The setting that stopped the host.
function budgets.rule_of(h)
  if not budgets.is_spent(h) then return '' end
  return budgets.of(h) == S.max_pages_per_host and 'max_pages_per_host' or 'trap_pages'
end

function budgets.judge(h, sign)
  if h[SIGNS] >= (S.trap_signs or 0) then return end
  h[SIGNS] = sign and h[SIGNS] + 1 or math.floor(h[SIGNS] / 2)
end

local function has_room(h)
  if h[PHASE] == GIVEN_UP or h[GATE] ~= 0 or h[HALT] ~= 0 then return false end
  local budget = budgets.of(h)
  if budget and h[PAGES] + h[IN_FLIGHT] >= budget then return false end
  -- A host whose delay goes by its latency is asked for one page until that is known.
  return h[IN_FLIGHT] < ((S.target_concurrency and h[LATENCY] == 0) and 1 or S.per_host or select(2, politeness.default_pace(h)))
end

local function needs_gate(h)
  return S.obey_robots and h[ROBOTS_UNTIL] <= now
end

-- ---- addresses (IpLimits in frontier/rules/hosts.py has the reasons): only where S.per_ip is set, or was

function addresses.load_of(address)
  local load = addresses.loads[address]
  if not load then
    load = tonumber(call('HGET', RUN .. 'addresses', address) or 0)
    addresses.loads[address] = load
  end
  return load
end

-- The counts of many at once.
function addresses.load(keys)
  local missing = {}
  for _, key in ipairs(keys) do
    local address = hosts[key][ADDRESS]
    if address ~= '' and not addresses.loads[address] then
      addresses.loads[address] = 0
      missing[#missing + 1] = address
    end
  end
  for place, stored in ipairs(fetch(RUN .. 'addresses', missing)) do
    addresses.loads[missing[place]] = tonumber(stored or 0)
  end
end

function addresses.is_full(h)
  return S.per_ip and h[ADDRESS] ~= '' and addresses.load_of(h[ADDRESS]) >= S.per_ip
end

function addresses.note_room(address)
  if S.per_ip and address ~= '' then addresses.look_at[address] = true end
end

function addresses.count(address, step)
  addresses.loads[address] = addresses.load_of(address) + step
  addresses.changed[address] = true
  if step < 0 then addresses.note_room(address) end
end

-- One request at a time goes before hosts that are in no burst: more would need more connections.
function pace.is_in_burst(h)
  return h[BURST_LEFT] > 0 and h[IN_FLIGHT] == 0
end

-- What a parked host is called: its address and a need or nothing, then as promise 5 has it, highest priority, burst, least
-- recently served.
function addresses.parked_name(key, h, need, top)
  local rank = top >= 0 and '0' .. struct.pack('>I7', MAX_PRIORITY - top) or '1' .. struct.pack('>I7', -top)
  return h[ADDRESS] .. '\0' .. need .. '\0' .. rank .. (pace.is_in_burst(h) and '0' or '1')
    .. struct.pack('>I6', h[SERVED]) .. key
end

-- Its key, and the need that it stands there for.
function addresses.parked_key(name)
  local first = string.find(name, '\0', 1, true)
  local second = string.find(name, '\0', first + 1, true)
  return string.sub(name, second + 16), string.sub(name, first + 1, second - 1)
end

local function phase_of(h)
  if h[PHASE] == GIVEN_UP then return GIVEN_UP end
  if h[QUEUED] == 0 and not h[NEEDS] then return IDLE end
  if not has_room(h) then return FULL end
  if due_at(h) > now then return WAITING end
  return addresses.is_full(h) and PARKED or READY
end

local ready_names = {}

local function ready_name(top)
  local name = ready_names[top]
  if not name then
    name = RUN .. 'ready:' .. level(top)
    ready_names[top] = name
  end
  return name
end

-- The sorted set that a host stands in, its score and its name there.
local function stand_of(key, h)
  local phase = h[PHASE]
  -- Where a host stands for its needs is told by needs.stands_of (7_needs.lua).
  local is_plain = h[QUEUED] > 0
  -- A host in a burst is served before those that are in none.
  if phase == READY and is_plain then
    return ready_name(h[TOP]), h[SERVED] - (pace.is_in_burst(h) and BURST_RANK or 0), key
  end
  if phase == WAITING then return RUN .. 'waiting', due_at(h), key end
  if phase == GIVEN_UP then return RUN .. 'given_up', 0, key end
  if phase == PARKED and is_plain then return RUN .. 'parked', 0, addresses.parked_name(key, h, '', h[TOP]) end
  return false, 0, key
end

-- The highest priority that waits for the worker of this call; nil: nothing does.
function needs.top(h)
  local top = h[QUEUED] > 0 and not needs.only and h[TOP] or nil
  if h[NEEDS] then
    for _, need in ipairs(needs.served) do
      local queue = h[NEEDS][need]
      if queue and (not top or queue[TOP] > top) then top = queue[TOP] end
    end
  end
  return top
end

-- form, run, queued, top, served, phase, trusted
local SHORT_FORM = '<BI4I4dI6BB'
-- form, run, queued, in flight, top, served, phase, gate, trusted, due, blocked until, crawl delay, robots version,
-- robots until, latency, priority and length of the first list, left of its burst, end of the burst, pacer,
-- address, rare fields
local LONG_FORM = '<BI4I4I4dI6BBBdddI6dddI4I4dI2c0Bc0I4c0'
-- pages, signs
local BUDGET_FORM = '<I4I2'

local function pack_host(h)
  local levels = h[LEVELS]
  if h[ROBOTS_UNTIL] == 0 and h[LATENCY] == 0 and h[IN_FLIGHT] == 0 and h[DUE] == 0 and h[GATE] == 0
    and h[STRUCK_AT] == 0 and h[AWAY] == 0 and h[GATE_LOSSES] == 0 and h[LATE] == 0 and h[ADDRESS] == ''
    and h[BLOCKED_UNTIL] == 0 and h[HALT] == 0 and h[BURST_UNTIL] == 0 and h[PAGES] + h[SIGNS] == 0 and h[QUEUED] > 0 and not h[NEEDS]
    and levels and levels[1] == h[TOP] and levels[2] == h[QUEUED] then
    return struct.pack(SHORT_FORM, 1, h[RUN_OF], h[QUEUED], h[TOP], h[SERVED], h[PHASE], h[TRUSTED] + 4 * h[PUBLIC])
  end
  local rare = ''
  if h[STRUCK_AT] ~= 0 or h[LATE] ~= 0 or h[GATE_LOSSES] ~= 0 or h[AWAY] ~= 0 or h[HOST_ERROR] ~= ''
    or (levels and levels[3]) or h[NEEDS] or h[HALT] ~= 0 then
    rare = {
      h[STRUCK_AT], h[STRIKES], h[BLOCKS], h[LATE], h[GATE_LOSSES], h[HOST_ERROR], h[AWAY], levels, h[BACKOFF],
      h[NEEDS] or nil,
    }
    if h[HALT] ~= 0 then rare[10], rare[11] = h[NEEDS], h[HALT] end
    rare = pack(rare)
  end
  local budget = h[PAGES] + h[SIGNS] > 0 and struct.pack(BUDGET_FORM, h[PAGES], h[SIGNS]) or ''
  return struct.pack(
    LONG_FORM, 2, h[RUN_OF], h[QUEUED], h[IN_FLIGHT], h[TOP], h[SERVED], h[PHASE], h[GATE], h[TRUSTED] + 4 * h[PUBLIC], h[DUE],
    h[BLOCKED_UNTIL], h[CRAWL_DELAY], h[ROBOTS_VERSION], h[ROBOTS_UNTIL], h[LATENCY], levels and levels[1] or 0,
    levels and levels[2] or 0, h[BURST_LEFT], h[BURST_UNTIL], #h[PACER], h[PACER], #h[ADDRESS], h[ADDRESS],
    #rare, rare
  ) .. budget
end

local function unpack_host(stored)
  if string.byte(stored) == 1 then
    local _, run, queued, top, served, phase, trusted = struct.unpack(SHORT_FORM, stored)
    return {
      run, queued, 0, top, served, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, trusted % 4, 0, '', '', phase, {top, queued}, 0, 0,
      0, 0, 0, 0, '', false, 0, math.floor(trusted / 4),
    }
  end
  local _, run, queued, in_flight, top, served, phase, gate, trusted, due, blocked_until, crawl_delay, robots_version,
    robots_until, latency, priority, listed, burst_left, burst_until, pacer, address, rare, rest =
    struct.unpack(LONG_FORM, stored)
  local h = {
    run, queued, in_flight, top, served, due, blocked_until, 0, 0, 0, 0, crawl_delay, robots_version, robots_until,
    gate, 0, trusted % 4, latency, address, '', phase, listed > 0 and {priority, listed}, 0, 0, 0, 0, burst_left,
    burst_until, pacer, false, 0, math.floor(trusted / 4),
  }
  if rest <= #stored then h[PAGES], h[SIGNS] = struct.unpack(BUDGET_FORM, stored, rest) end
  if rare ~= '' then
    rare = unpacked(rare)
    h[STRUCK_AT], h[STRIKES], h[BLOCKS], h[LATE], h[GATE_LOSSES] = rare[1], rare[2], rare[3], rare[4], rare[5]
    h[HOST_ERROR], h[AWAY], h[LEVELS], h[BACKOFF] = rare[6], rare[7], rare[8], rare[9] or rare[3]
    h[NEEDS], h[HALT] = rare[10] or false, rare[11] or 0
  end
  return h
end

-- Whether the name of a host is public: 1 or 0.
function politeness.is_public(key)
  local name = string.match(key, '^[^/]*//%[([^%]]*)%]') or string.match(key, '^[^/]*//([^/:]*)') or ''
  -- Nearly all names end in a word. Of these, only those of localhost are private.
  if string.find(name, '^[^:]*[.]%a[^.:]*$') then return string.find(name, '[.]localhost$') and 0 or 1 end
  for pattern in string.gmatch(PRIVATE_NAMES, '%S+') do
    if string.find(name, '^' .. pattern .. '$') then return 0 end
  end
  return 1
end

-- A new run begins with an empty queue and forgiven troubles; delays, blocks and robots.txt stay.
local function read_host(stored, key)
  if not stored then
    return {
      J.run, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '', '', IDLE, false, 0, 0, 0, 0, 0, 0, '',
      false, 0, politeness.is_public(key),
    }
  end
  local h = unpack_host(stored)
  if h[RUN_OF] ~= J.run then
    h[RUN_OF], h[QUEUED], h[IN_FLIGHT], h[STRIKES], h[BLOCKS], h[GATE], h[GATE_LOSSES] = J.run, 0, 0, 0, 0, 0, 0
    h[TRUSTED], h[PHASE], h[LEVELS], h[AWAY], h[BACKOFF], h[PAGES], h[SIGNS] = 0, IDLE, false, 0, 0, 0, 0
    h[BURST_LEFT], h[PACER], h[NEEDS], h[HALT], h[PUBLIC] = 0, '', false, 0, politeness.is_public(key)
  end
  return h
end

local function load_hosts(keys)
  local missing, named = {}, {}
  for _, key in ipairs(keys) do
    if not hosts[key] and not named[key] then
      named[key] = true
      missing[#missing + 1] = key
    end
  end
  for place, stored in ipairs(fetch(BASE .. 'hosts', missing)) do
    local key, h = missing[place], read_host(stored, missing[place])
    hosts[key] = h
    stood_in[key], stood_at[key], stood_as[key] = stand_of(key, h)
    if h[NEEDS] then needs.stood[key] = needs.stands_of(key, h) end
  end
  if S.per_ip then addresses.load(missing) end
end

-- A host's record, to be changed: it will be written back.
local function host_of(key)
  if not is_touched[key] then
    if not hosts[key] then load_hosts({key}) end
    is_touched[key] = true
    touched[#touched + 1] = key
  end
  return hosts[key]
end

-- Remember a few long queues for people. Whoever's queue changes comes by here, so those kept are exact.
local crowd = {count = 0, shortest = false}

function crowd.measure()
  crowd.count, crowd.shortest = 0, false
  for key, length in pairs(J.crowded) do
    crowd.count = crowd.count + 1
    if not crowd.shortest or length < J.crowded[crowd.shortest] then crowd.shortest = key end
  end
end

function crowd.note(key, queued)
  local crowded = J.crowded
  if crowded[key] then
    if crowded[key] == queued then return end
    crowded[key] = queued > 0 and queued or nil
    crowd.shortest = false
  elseif queued > 0 then
    if not crowd.shortest then crowd.measure() end
    if crowd.count >= CROWDED_HOSTS then
      -- Most hosts of a wide crawl leave here.
      if queued <= crowded[crowd.shortest] then return end
      crowded[crowd.shortest] = nil
    end
    crowded[key] = queued
    crowd.shortest = false
  end
end

-- Whether some host that was given up, or whose budget is spent, has more than this call may bury.
local burying = false

-- The next call that buries finds it, and ends what waits for it.
local function mark_stopped(key, h)
  if h[PHASE] == GIVEN_UP then return end
  if h[HALT] == HALT_GIVEN_UP then
    h[PHASE] = GIVEN_UP
    call('HSET', RUN .. 'reasons', key, pack({GIVEN_UP_CLASS, GIVEN_UP_REASON}))
    return
  end
  local rule = budgets.rule_of(h)
  local sign = rule == 'trap_pages' and ': its pages look like those of a trap' or ''
  local reason = format('the budget of its host is spent: %d pages (%s%s)', budgets.of(h), rule, sign)
  h[PHASE] = GIVEN_UP
  call('HSET', RUN .. 'reasons', key, pack({HOST_BUDGET, reason}))
end

-- A host goes from one set to another, in a job that counts addresses or did.
local function note_move(key, h, old)
  local was_parked = old == RUN .. 'parked'
  local was_ready = old and not was_parked and old ~= RUN .. 'waiting' and old ~= RUN .. 'given_up'
  local is_parked, is_ready = h[PHASE] == PARKED, h[PHASE] == READY
  if (was_ready or was_parked) and not is_ready and not is_parked and not addresses.granted[key] then
    -- It was to use the room that its address has, and does not: others may.
    addresses.note_room(h[ADDRESS])
  end
  if was_parked ~= is_parked then
    J.parked = (J.parked or 0) + (is_parked and 1 or -1)
    if J.parked == 0 then J.parked = nil end
  end
end

local function save_touched()
  local may_stop = budgets.may_stop()
  if J.shortened and J.shortened[3] <= now then J.shortened = nil end
  local fields, joins, leaves, tops = {}, {}, {}, {}
  for _, key in ipairs(touched) do
    local h, old, name = hosts[key], stood_in[key], stood_as[key]
    crowd.note(key, h[NEEDS] and needs.queued(h) or h[QUEUED])
    -- Something was added, or came back, to a host that is stopped.
    if may_stop and (h[QUEUED] > 0 or h[NEEDS]) and h[PHASE] ~= GIVEN_UP and budgets.is_stopped(h) then
      mark_stopped(key, h)
      burying = true
    end
    if J.shortened then pace.shorten_wait(h) end
    h[PHASE] = phase_of(h)
    local set, score, new_name = stand_of(key, h)
    local was, is = old, set
    if h[NEEDS] or needs.stood[key] then
      local before, after = needs.move(key, h, joins, leaves)
      was, is = old or before, set or after
    end
    if was ~= is and (S.per_ip or J.parked) then note_move(key, h, was) end
    if old and (old ~= set or name ~= new_name) then
      local list = leaves[old] or {}
      leaves[old] = list
      list[#list + 1] = name
    end
    if set and (old ~= set or stood_at[key] ~= score or name ~= new_name) then
      local list = joins[set] or {}
      joins[set] = list
      list[#list + 1] = score
      list[#list + 1] = new_name
      if h[PHASE] == READY then tops[h[TOP]] = true end
    end
    stood_in[key], stood_at[key], stood_as[key] = set, score, new_name
    fields[#fields + 1] = key
    fields[#fields + 1] = pack_host(h)
    is_touched[key] = nil
  end
  touched = {}
  for set, list in pairs(leaves) do bulk('ZREM', set, list) end
  for set, list in pairs(joins) do bulk('ZADD', set, list) end
  for top in pairs(tops) do call('ZADD', RUN .. 'tops', -top, level(top)) end
  bulk('HSET', BASE .. 'hosts', fields)
end

-- As many hosts of an address as it has room for are put down as ready, in the order of promise 5. So many for each need: it may
-- be that nobody serves the others.
function addresses.call_parked()
  local looked_at = addresses.look_at
  if not next(looked_at) then return end
  addresses.look_at = {}
  local function call_for(need, address, room)
    local limit, keys, first = room, {}, address .. '\0' .. need
    while true do
      local names = call('ZRANGEBYLEX', RUN .. 'parked', '[' .. first .. '\0', '(' .. first .. '\1', 'LIMIT', 0, limit)
      for place, name in ipairs(names) do keys[place] = addresses.parked_key(name) end
      load_hosts(keys)
      -- Whose robots.txt is to be read alone may be passed over for long.
      local passed_over = 0
      for _, key in ipairs(keys) do
        if hosts[key][GATE_LOSSES] >= LOSSES_BEFORE_ALONE then passed_over = passed_over + 1 end
      end
      if #keys < limit or limit >= room + passed_over then break end
      limit = room + passed_over
    end
    for _, key in ipairs(keys) do host_of(key) end
  end
  for address in pairs(looked_at) do
    local room = (S.per_ip or 0) - addresses.load_of(address)
    if room > 0 then
      call_for('', address, room)
      local from = '[' .. address .. '\0\1'
      while J.needy do
        local name = call('ZRANGEBYLEX', RUN .. 'parked', from, '(' .. address .. '\1', 'LIMIT', 0, 1)[1]
        if not name then break end
        local _, need = addresses.parked_key(name)
        call_for(need, address, room)
        from = '[' .. address .. '\0' .. need .. '\1'
      end
    end
  end
end

-- Each host to where it stands now: written once per step, not once per change.
local function save_hosts()
  while #touched > 0 do
    save_touched()
    addresses.call_parked()
  end
  for address in pairs(addresses.changed) do
    local load = addresses.load_of(address)
    if load == 0 then
      call('HDEL', RUN .. 'addresses', address)
    else
      call('HSET', RUN .. 'addresses', address, load)
    end
  end
  addresses.changed = {}
end

-- ---- the queue of a host

local function queue_of(key, priority, need)
  if need ~= '' then return RUN .. 'q_for:' .. need .. ':' .. level(priority) .. ':' .. key end
  return RUN .. 'q:' .. level(priority) .. ':' .. key
end

local function joined_queue(h, priority)
  if h[QUEUED] == 0 or priority > h[TOP] then h[TOP] = priority end
  h[QUEUED] = h[QUEUED] + 1
end

local function count_level(h, priority, step)
  local levels = h[LEVELS] or {}
  local place = 1
  while levels[place] and levels[place] > priority do place = place + 2 end
  if levels[place] == priority then
    levels[place + 1] = levels[place + 1] + step
    if levels[place + 1] == 0 then
      table.remove(levels, place)
      table.remove(levels, place)
    end
  else
    table.insert(levels, place, step)
    table.insert(levels, place, priority)
  end
  h[LEVELS] = #levels > 0 and levels
end

local function count_listed(h)
  local listed, levels = 0, h[LEVELS]
  if levels then
    for place = 2, #levels, 2 do listed = listed + levels[place] end
  end
  return listed
end

-- ---- politeness

-- Book one grant; the start window that goes with it and the distance that the worker keeps, or false and 0.
function politeness.granted(h, epoch, worker)
  h[IN_FLIGHT] = h[IN_FLIGHT] + 1
  h[SERVED] = epoch
  if h[BURST_LEFT] > 0 then
    h[BURST_LEFT] = now < h[BURST_UNTIL] and h[BURST_LEFT] - 1 or 0
  else
    h[BURST_LEFT], h[BURST_UNTIL] = S.burst_pages - 1, now + S.burst_seconds
  end
  local delay = delay_of(h)
  h[PACER] = ''
  if delay == 0 then return false, 0 end
  local window = start_seconds(h) + pace.round_trip_seconds
  if delay <= MAX_PACE_SECONDS then
    h[PACER] = worker
    window = window + PACE_WINDOW_SECONDS
  end
  h[DUE] = now + delay + window
  return window, h[PACER] ~= '' and delay or 0
end

function pace.note(key, h, worker)
  if h[PACER] == worker and not pace.is_known[key] then
    pace.is_known[key] = true
    pace.hosts[#pace.hosts + 1] = key
  end
end

-- Whether the worker may be granted another request of a host that is not due, and keep the delay by itself. `floor`: of no lower
-- priority.
function pace.may_go_on(key, h, worker, floor)
  if not pace.is_known[key] or h[PACER] ~= worker or not needs.top(h) or h[BLOCKED_UNTIL] > now then return false end
  local delay = delay_of(h)
  return delay > 0 and delay <= MAX_PACE_SECONDS and h[IN_FLIGHT] < 1 + math.floor((h[LATENCY] + AHEAD_SECONDS) / delay)
    and has_room(h) and not needs_gate(h) and not addresses.is_full(h) and (not floor or needs.top(h) >= floor)
end

-- ---- settings that change while the job runs (shortened_delay and shorten_wait in policy/politeness.py have the reasons)

function pace.use_settings(settings)
  local longest = S.delay_seconds or politeness.has_own_pace(S) and 0 or PUBLIC_DELAY_SECONDS
  local shorter = settings.delay_seconds or politeness.has_own_pace(settings) and 0 or PUBLIC_DELAY_SECONDS
  if shorter >= longest then longest = 0 end
  local target = settings.target_concurrency
  if S.target_concurrency and (not target or target > S.target_concurrency
    or settings.max_delay_seconds < S.max_delay_seconds) then
    longest = math.max(longest, S.max_delay_seconds)
  end
  if longest > 0 then
    local last = now + longest + MAX_START_SECONDS + PACE_WINDOW_SECONDS
    J.shortened = {now, J.next_epoch, math.max(last, J.shortened and J.shortened[3] or 0)}
    J.reschedule_after = 0
  end
  J.settings, S = settings, settings
end

function pace.shorten_wait(h)
  if h[SERVED] >= J.shortened[2] then return end
  local delay = delay_of(h)
  h[DUE] = math.min(h[DUE], J.shortened[1] + delay + (delay > 0 and start_seconds(h) + PACE_WINDOW_SECONDS or 0))
end

-- Some of the hosts that wait are written. Those that are due by now were put down anew.
function pace.reschedule()
  local from, keys, last = '(' .. text(math.max(J.reschedule_after, now)), {}, false
  local found = call('ZRANGEBYSCORE', RUN .. 'waiting', from, '+inf', 'WITHSCORES', 'LIMIT', 0, BATCH)
  for place = 1, #found, 2 do keys[#keys + 1], last = found[place], found[place + 1] end
  if #keys < BATCH then
    J.reschedule_after = nil
  else
    J.reschedule_after = tonumber(last)
    keys = call('ZRANGEBYSCORE', RUN .. 'waiting', from, last)
  end
  load_hosts(keys)
  for _, key in ipairs(keys) do host_of(key) end
end

function politeness.given_back(h, epoch)
  if h[SERVED] == epoch and h[PACER] == '' then h[DUE] = math.min(h[DUE], now) end
end

function politeness.came_late(h)
  if start_seconds(h) < MAX_START_SECONDS then h[LATE] = h[LATE] + 1 end
end

-- Nothing more of it is buried: everything is, or the host has another chance.
local function forgive(key, h)
  if h[PHASE] ~= GIVEN_UP then return end
  h[PHASE] = IDLE
  call('HDEL', RUN .. 'reasons', key)
end

-- An operator's order, or the end of one.
function budgets.halt(h, halt)
  for name, value in pairs({paused_hosts = HALT_PAUSED, given_up_hosts = HALT_GIVEN_UP}) do
    local number = (J[name] or 0) + (halt == value and 1 or 0) - (h[HALT] == value and 1 or 0)
    J[name] = number > 0 and number or nil
  end
  h[HALT] = halt
end

function politeness.answered(key, h, leased_at, latency, status)
  forgive(key, h)
  if h[HOST_ERROR] == HELD_CLASS then h[BLOCKED_UNTIL] = 0 end
  h[STRIKES], h[BLOCKS], h[HOST_ERROR] = 0, 0, ''
  -- What had been leased before the block says nothing about the time after it.
  if h[BACKOFF] > 0 and leased_at > h[STRUCK_AT] then h[BACKOFF] = h[BACKOFF] - 1 end
  if latency then
    local old = h[LATENCY] ~= 0 and h[LATENCY] or latency
    -- An error or a redirect is quickly said, and does not make a slow host look fast.
    if latency < old and (status < 200 or status > 299) then latency = old end
    h[LATENCY] = old + LATENCY_WEIGHT * (latency - old)
  end
end

-- Only a request that was leased after the last strike tells something new.
function politeness.strike(h, leased_at, pause)
  if leased_at <= h[STRUCK_AT] then return false end
  h[STRUCK_AT] = now
  h[BLOCKED_UNTIL] = math.max(h[BLOCKED_UNTIL], now + pause)
  return true
end

function politeness.blocked(h, leased_at, retry_after)
  h[STRIKES] = 0
  local pause
  if retry_after and retry_after ~= 0 then
    pause = math.min(retry_after, MAX_PAUSE_SECONDS)
    h[BLOCKED_UNTIL] = math.max(h[BLOCKED_UNTIL], now + pause)
  else
    pause = math.min(S.host_backoff_seconds * 2 ^ math.min(h[BACKOFF], MAX_DOUBLINGS), MAX_PAUSE_SECONDS)
  end
  if not politeness.strike(h, leased_at, pause) then return false end
  h[BLOCKS], h[BACKOFF] = h[BLOCKS] + 1, h[BACKOFF] + 1
  return true
end

function politeness.unreachable(h, leased_at)
  local pause = math.min(S.retry_delay_seconds * 2 ^ math.min(h[STRIKES], MAX_DOUBLINGS), MAX_RECONNECT_SECONDS)
  if not politeness.strike(h, leased_at, pause) then return false end
  h[STRIKES] = h[STRIKES] + 1
  return true
end

-- A page of the host holds its worker: nothing more of it for so long, or until it answers.
function politeness.held(h, pause)
  if h[BLOCKED_UNTIL] <= now then h[BLOCKED_UNTIL], h[HOST_ERROR] = now + pause, HELD_CLASS end
end

-- Its robots.txt could not be read once more: when the host has waited enough, the last good copy governs.
function politeness.gate_failed(h)
  if h[ROBOTS_UNTIL] == 0 or math.max(h[STRIKES], h[BLOCKS]) < S.max_attempts then return end
  h[ROBOTS_UNTIL] = now + math.min(S.robots_seconds, LAST_COPY_SECONDS)
end

-- The queue of a paused host is kept until it is resumed.
function politeness.is_down(h)
  if h[HALT] == HALT_PAUSED then return false end
  return h[STRIKES] >= S.max_attempts or h[BLOCKS] >= BLOCK_LIMIT
end

-- A few slow and troubled hosts, for people. Only what changes is written: most commits change nothing.
local notable = {}

local function save_notable()
  if not next(notable) then return end
  local members, count, least = {}, 0, math.huge
  local found = call('ZRANGE', RUN .. 'notable', 0, -1, 'WITHSCORES')
  for place = 1, #found, 2 do
    members[found[place]] = tonumber(found[place + 1])
    count = count + 1
    least = math.min(least, members[found[place]])
  end
  local scores = {}
  for key in pairs(notable) do
    local h = hosts[key]
    local score = (h[STRIKES] + h[BLOCKS]) * MAX_PAUSE_SECONDS + h[LATENCY] + (budgets.is_spent(h) and STOPPED_SCORE or 0)
    if members[key] ~= score and (members[key] or count < NOTABLE_HOSTS or score > least) then
      scores[#scores + 1] = score
      scores[#scores + 1] = key
    end
  end
  notable = {}
  if #scores > 0 then
    bulk('ZADD', RUN .. 'notable', scores)
    call('ZREMRANGEBYRANK', RUN .. 'notable', 0, -NOTABLE_HOSTS - 1)
  end
end

-- It was given up, by an operator or because it is down.
local function was_given_up(h)
  return h[PHASE] == GIVEN_UP or h[HALT] == HALT_GIVEN_UP or politeness.is_down(h)
end

-- For people: queued, in flight, due, blocked until, strikes, latency, class of its last error, pages, the setting that
-- stopped it, whether it is paused, whether it was given up. `stored`: its record, if it was read already.
local function tell_host(key, stored)
  stored = stored or call('HGET', BASE .. 'hosts', key)
  if not stored then return false end
  local h = read_host(stored, key)
  return {
    h[NEEDS] and needs.queued(h) or h[QUEUED], h[IN_FLIGHT], text(h[DUE]), text(h[BLOCKED_UNTIL]), h[STRIKES] + h[BLOCKS], text(h[LATENCY]),
    h[HOST_ERROR], h[ADDRESS], addresses.is_full(h) and 1 or 0, h[PAGES], budgets.rule_of(h),
    h[HALT] == HALT_PAUSED and 1 or 0, was_given_up(h) and 1 or 0,
  }
end
