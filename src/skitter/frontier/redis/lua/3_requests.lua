-- Requests: dedup, the queue, and where a request goes when its lease has ended.
--
--   seen:N, q:P:HOST, returned:HOST, requests, delayed, suspects, away:HOST, given_up, reasons, failed, failed:CLASS,
--   errors, permits, and what there is of them for a need: see 1_job.lua

local SEQ, HOST, PRIORITY, PLACE, ATTEMPTS, LOSSES, LOSSES_ALONE, ROW_BLOCKS = 1, 2, 3, 4, 5, 6, 7, 8
local NOT_BEFORE, STATUS, ERROR_CLASS, ERROR, ENDED_AT, PAYLOAD, NEED = 9, 10, 11, 12, 13, 14, 15
-- How often it failed by its proxy; nothing: never.
local PROXY_FAILURES = 16
-- The states (AT_QUEUED and so on) are RequestState of frontier/tables.py.
local COUNTER = {
  [AT_QUEUED] = 'queued', [AT_DELAYED] = 'delayed', [AT_LEASED] = 'leased', [AT_DONE] = 'done',
  [AT_REDIRECTED] = 'redirected', [AT_FAILED] = 'failed', [AT_EXCLUDED] = 'excluded', [AT_SUSPECT] = 'queued',
}
-- Arguments that one entry takes: id in decimal, host key, priority (with a need: PRIORITY@NEED), id and payload.
local ENTRY = 4

-- ---- dedup
--
-- Where S.layout (a Bloom filter) or S.dedup_seconds (generations) is set, an id leaves the exact set of J.seen when its
-- request ends done or redirected, and joins what has ended. So what is not over is never forgotten, or taken for known.

local seen = {ended = false, changed = false}

-- The record of what has ended; false: the exact set has that too.
function seen.load()
  if seen.ended or not (S.layout or S.dedup_seconds) then return seen.ended end
  local stored = call('GET', RUN .. 'ended')
  local record = stored and unpacked(stored)
  if S.layout then
    record = record or {items = {0}, ones = {0}, kept = exact.new(J.seen.mean)}
    record.layout = S.layout
  else
    record = record or {number = 0, generations = {}}
    record.span, record.kept, record.mean = S.dedup_seconds / GENERATIONS, GENERATIONS, J.seen.mean
    expiring.read_clock(record, now)
  end
  seen.ended = record
  return record
end

function seen.save()
  if not seen.changed then return end
  -- The settings have the layout.
  seen.ended.layout = nil
  call('SET', RUN .. 'ended', pack(seen.ended))
end

-- "known", or "maybe" for what a Bloom filter takes for known; nil: neither. ``raw`` begins with the id in 8 bytes. ``exactly``: a
-- Bloom filter is not asked.
function seen.find(id, raw, exactly)
  if exact.has(J.seen, RUN .. 'seen:', id) then return 'known' end
  local record = seen.load()
  if not record then return end
  if not S.layout then return expiring.has(record, RUN .. 'generation:', id) and 'known' or nil end
  if exact.has(record.kept, RUN .. 'kept:', id) then return 'known' end
  return not exactly and bloom.has(record, RUN .. 'filter:', raw) and 'maybe' or nil
end

-- Whether the id is new.
function seen.add(id, raw, exactly)
  local record = seen.load()
  if record then
    if seen.find(id, raw, exactly) then return false end
    if exactly and S.layout then
      exact.add(record.kept, RUN .. 'kept:', id)
      seen.changed = true
    end
  end
  return exact.add(J.seen, RUN .. 'seen:', id)
end

-- A request is done or redirected.
function seen.close(raw)
  local record = seen.load()
  if not record then return end
  local id = exact.decimal(raw)
  exact.remove(J.seen, RUN .. 'seen:', id)
  if S.layout then
    bloom.add(record, RUN .. 'filter:', raw)
  else
    expiring.turn(record, RUN .. 'generation:')
    expiring.add(record, RUN .. 'generation:', id)
  end
  seen.changed = true
end

-- ---- known pages of a job that recrawls

local known_pages = {}

-- Whether a page is known and not due; `raw`: its id, and what may follow it.
function known_pages.is_later(raw)
  local due = call('ZSCORE', BASE .. 'due', string.sub(raw, 1, 8))
  return due and tonumber(due) > now
end

-- When it is queued, and not when it is fetched: also what dies, is excluded or never gets its turn is known to later
-- runs.
function known_pages.add(raw, host)
  local id = string.sub(raw, 1, 8)
  if call('HSETNX', BASE .. 'pages', id, pack({host, string.sub(raw, 9)})) == 1 then
    call('ZADD', BASE .. 'due', text(now), id)
  end
end

-- What was added before the job recrawled is not known, and gets no record.
function known_pages.save_record(id, next_at, record)
  if call('HEXISTS', BASE .. 'pages', id) == 0 then return end
  call('HSET', BASE .. 'records', id, record)
  call('ZADD', BASE .. 'due', text(next_at), id)
end

-- ---- adding

-- ---- what every target holds, of all runs (the setting dedup_scope)

local delivered = {}

function delivered.has(id)
  return J.delivered and exact.has(J.delivered, BASE .. 'delivered:', id)
end

function delivered.add(id)
  J.delivered = J.delivered or exact.new(J.seen.mean)
  exact.add(J.delivered, BASE .. 'delivered:', id)
end

-- What may stand before a priority: the entry permits its host, it is trusted, and its id is kept exactly. What has a mark
-- is queued even if an earlier run has delivered the page; "*" says nothing else.
seen.marks = {
  [string.byte('!')] = {permits = true, trusts = true, exactly = true}, [string.byte('?')] = {permits = true},
  [string.byte('=')] = {exactly = true}, [string.byte('&')] = {permits = true, exactly = true},
  [string.byte('*')] = {},
}

-- Whether the entry at this place of ARGV is left out, because an earlier run has delivered its page.
function delivered.skips(place)
  return not seen.marks[string.byte(ARGV[place + 2])] and delivered.has(ARGV[place])
    and not seen.find(ARGV[place], ARGV[place + 3], false)
end

local function permit(key, trusts)
  local h = host_of(key)
  -- Those of a job with shards are listed at its lead (permit_hosts.lua).
  if h[TRUSTED] == 0 and not J.shards then call('RPUSH', RUN .. 'permits', key) end
  if trusts then
    h[TRUSTED] = 1
  elseif h[TRUSTED] == 0 then
    h[TRUSTED] = 2
  end
end

-- Dedup and enqueue the entries that begin at these places of ARGV; how many were new (promise 3), and their places.
local function add(places)
  local fresh, keys, permits = {}, {}, {}
  for _, place in ipairs(places) do
    local id, key = ARGV[place], ARGV[place + 1]
    local mark = seen.marks[string.byte(ARGV[place + 2])]
    local permits_host = mark and mark.permits
    if permits_host then permits[#permits + 1] = {key, mark.trusts} end
    -- A page that is not due is left out, unless the user typed it; but a crawl that stays fetches that once.
    local is_fetched = permits_host and not S.stay
    local is_later = S.recrawl_due and not is_fetched and known_pages.is_later(ARGV[place + 3])
    if S.skips_delivered and delivered.skips(place) then
      bump(DELIVERED_EARLIER, 1)
    -- The payload begins with the id in 8 bytes.
    elseif not is_later and seen.add(id, ARGV[place + 3], mark and mark.exactly) then
      fresh[#fresh + 1] = place
      keys[#keys + 1] = key
    end
  end
  load_hosts(keys)
  for _, found in ipairs(permits) do permit(found[1], found[2]) end
  local lists = {}
  for _, place in ipairs(fresh) do
    local key, priority = ARGV[place + 1], ARGV[place + 2]
    priority = seen.marks[string.byte(priority)] and string.sub(priority, 2) or priority
    local number, need = tonumber(priority), ''
    if not number then
      number, need = string.match(priority, '^(.-)@(.+)$')
      number = tonumber(number)
      needs.count(need, 1)
    end
    local waiting = host_of(key)
    if need ~= '' then waiting = needs.queue(waiting, need) end
    joined_queue(waiting, number)
    count_level(waiting, number, 1)
    if S.recrawl then known_pages.add(ARGV[place + 3], key) end
    local queue = queue_of(key, number, need)
    local element = struct.pack('>I5', J.next_seq) .. ARGV[place + 3]
    J.next_seq = J.next_seq + 1
    local list = lists[queue]
    if not list then
      -- Most queues get one.
      lists[queue] = element
    elseif type(list) == 'string' then
      lists[queue] = {list, element}
    else
      list[#list + 1] = element
    end
  end
  for queue, list in pairs(lists) do
    if type(list) == 'string' then
      call('RPUSH', queue, list)
    else
      bulk('RPUSH', queue, list)
    end
  end
  J.queued = J.queued + #fresh
  return #fresh, fresh
end

-- ---- where a request is

-- sequence, priority, place, attempts, losses, losses alone, blocks, host key, what the last failure left and the need,
-- payload
local ROW_FORM = '<I6dBHHHHI2c0I4c0I4c0'

local function pack_row(row)
  local failure = ''
  if row[STATUS] ~= 0 or row[ENDED_AT] ~= 0 or row[NOT_BEFORE] ~= 0 or row[ERROR_CLASS] ~= '' or row[ERROR] ~= ''
    or row[NEED] ~= '' or row[PROXY_FAILURES] then
    local by_proxy = row[PROXY_FAILURES]
    local need = (row[NEED] ~= '' or by_proxy) and row[NEED] or nil
    failure = pack({row[NOT_BEFORE], row[STATUS], row[ERROR_CLASS], row[ERROR], row[ENDED_AT], need, by_proxy})
  end
  return struct.pack(
    ROW_FORM, row[SEQ], row[PRIORITY], row[PLACE], row[ATTEMPTS], row[LOSSES], row[LOSSES_ALONE], row[ROW_BLOCKS],
    #row[HOST], row[HOST], #failure, failure, #row[PAYLOAD], row[PAYLOAD]
  )
end

-- The row that begins at this place of a text.
local function unpack_row(stored, first)
  local seq, priority, place, attempts, losses, losses_alone, blocks, host, failure, payload =
    struct.unpack(ROW_FORM, stored, first)
  local row = {
    seq, host, priority, place, attempts, losses, losses_alone, blocks, 0, 0, '', '', 0, payload, '',
  }
  if failure ~= '' then
    failure = unpacked(failure)
    row[NOT_BEFORE], row[STATUS], row[ERROR_CLASS], row[ERROR] = failure[1], failure[2], failure[3], failure[4]
    row[ENDED_AT], row[NEED], row[PROXY_FAILURES] = failure[5], failure[6] or '', failure[7]
  end
  return row
end

local function move(row, place)
  local from, to = COUNTER[row[PLACE]], COUNTER[place]
  J[from] = J[from] - 1
  J[to] = J[to] + 1
  row[PLACE] = place
  if row[NEED] ~= '' then needs.count(row[NEED], (to == 'queued' and 1 or 0) - (from == 'queued' and 1 or 0)) end
end

local function load_rows(ids)
  local rows = {}
  for place, stored in ipairs(fetch(RUN .. 'requests', ids)) do rows[place] = stored and unpack_row(stored, 1) end
  return rows
end

local function save_row(id, row)
  call('HSET', RUN .. 'requests', id, pack_row(row))
end

local function returned_member(id, row)
  return struct.pack('>I6', row[SEQ]) .. id
end

-- Delayed and suspect requests stand in no queue of their host; this is how a host finds them.
local function go_away(h, id, row)
  h[AWAY] = h[AWAY] + 1
  call('ZADD', RUN .. 'away:' .. row[HOST], row[SEQ], id)
end

local function come_back(h, id, row)
  h[AWAY] = h[AWAY] - 1
  call('ZREM', RUN .. 'away:' .. row[HOST], id)
end

-- Back to its old place in the queue: its sequence does not change, and all that were never leased come after it.
local function requeue(id, row)
  local h = host_of(row[HOST])
  if row[LOSSES] >= LOSSES_BEFORE_ALONE then
    move(row, AT_SUSPECT)
    go_away(h, id, row)
    call('ZADD', row[NEED] == '' and RUN .. 'suspects' or needs.suspects_of(row[NEED]), row[SEQ], id)
    -- It stands in no queue, and perhaps nobody serves its need: nothing else tells that it is to be buried.
    if budgets.may_stop() and budgets.is_stopped(h) then
      mark_stopped(row[HOST], h)
      burying = true
    end
  else
    move(row, AT_QUEUED)
    joined_queue(row[NEED] == '' and h or needs.queue(h, row[NEED]), row[PRIORITY])
    local returned = row[NEED] == '' and RUN .. 'returned:' .. row[HOST] or needs.returned_of(row[HOST], row[NEED])
    call('ZADD', returned, -row[PRIORITY], returned_member(id, row))
  end
  save_row(id, row)
end

local function delay_row(id, row, seconds)
  row[NOT_BEFORE] = now + seconds
  move(row, AT_DELAYED)
  go_away(host_of(row[HOST]), id, row)
  call('ZADD', RUN .. 'delayed', row[NOT_BEFORE], id)
  save_row(id, row)
end

local function count_error(class, step)
  if call('HINCRBY', RUN .. 'errors', class, step) == 0 then call('HDEL', RUN .. 'errors', class) end
end

local function bury(id, row)
  row[ENDED_AT] = now
  count_error(row[ERROR_CLASS], 1)
  move(row, AT_FAILED)
  call('ZADD', RUN .. 'failed', row[SEQ], id)
  call('ZADD', RUN .. 'failed:' .. row[ERROR_CLASS], row[SEQ], id)
  save_row(id, row)
end

local function die(id, row, class, reason)
  row[ERROR_CLASS], row[ERROR] = class, reason
  bury(id, row)
end

-- The same for many: each index is written once.
local function die_together(ids, rows, class, reason)
  local marks, fields = {}, {}
  for place, id in ipairs(ids) do
    local row = rows[place]
    row[ERROR_CLASS], row[ERROR], row[ENDED_AT] = class, reason, now
    move(row, AT_FAILED)
    marks[#marks + 1], fields[#fields + 1] = row[SEQ], id
    marks[#marks + 1], fields[#fields + 1] = id, pack_row(row)
  end
  count_error(class, #ids)
  bulk('ZADD', RUN .. 'failed', marks)
  bulk('ZADD', RUN .. 'failed:' .. class, marks)
  bulk('HSET', RUN .. 'requests', fields)
end

-- Many that a rule keeps out. Nothing lists them: each is found by its id.
local function exclude_together(ids, rows, rule, reason)
  local fields = {}
  for place, id in ipairs(ids) do
    local row = rows[place]
    row[ERROR_CLASS], row[ERROR], row[ENDED_AT] = rule, reason, now
    move(row, AT_EXCLUDED)
    fields[#fields + 1], fields[#fields + 2] = id, pack_row(row)
  end
  bulk('HSET', RUN .. 'requests', fields)
end

-- The first of the queue of a host for a need (empty: for none), out of it: its id and its row.
local function take_head(key, h, need)
  local queue = need == '' and h or needs.queue(h, need)
  local levels = queue[LEVELS]
  if queue[QUEUED] > count_listed(queue) then
    local returned = need == '' and RUN .. 'returned:' .. key or needs.returned_of(key, need)
    local head = call('ZRANGE', returned, 0, 0, 'WITHSCORES')
    if not levels or -tonumber(head[2]) >= levels[1] then
      local id = string.sub(head[1], -8)
      local row = unpack_row(call('HGET', RUN .. 'requests', id), 1)
      call('ZREM', returned, head[1])
      call('HDEL', RUN .. 'requests', id)
      queue[QUEUED] = queue[QUEUED] - 1
      if need ~= '' then needs.forget_empty(h, need) end
      return id, row
    end
  end
  local element = call('LPOP', queue_of(key, levels[1], need))
  local row = {
    struct.unpack('>I5', element), key, levels[1], AT_QUEUED, 0, 0, 0, 0, 0, 0, '', '', 0, string.sub(element, 14),
    need,
  }
  -- struct.unpack also tells where it stopped; the constructor above keeps only its first value.
  queue[QUEUED] = queue[QUEUED] - 1
  count_level(queue, levels[1], -1)
  if need ~= '' then needs.forget_empty(h, need) end
  return string.sub(element, 6, 13), row
end

-- The priority of what waits next in the queue of a host for a need.
local function find_top(key, h, need)
  local queue = need == '' and h or (h[NEEDS] and h[NEEDS][need])
  if not queue or queue[QUEUED] == 0 then return end
  local levels = queue[LEVELS]
  local top = levels and levels[1]
  if queue[QUEUED] > count_listed(queue) then
    local returned = need == '' and RUN .. 'returned:' .. key or needs.returned_of(key, need)
    local priority = -tonumber(call('ZRANGE', returned, 0, 0, 'WITHSCORES')[2])
    if not top or priority > top then top = priority end
  end
  queue[TOP] = top
end

-- The first requests that wait for a host, out of their places: ids and rows. Queued ones in their order, those with needs
-- after the others and by the names of their needs; then those that are away.
local function take_waiting(key, h, limit)
  local ids, rows = {}, {}
  while #ids < limit and h[QUEUED] > 0 do ids[#ids + 1], rows[#rows + 1] = take_head(key, h, '') end
  local names = {}
  for need in pairs(h[NEEDS] or {}) do names[#names + 1] = need end
  table.sort(names)
  for _, need in ipairs(names) do
    while #ids < limit and h[NEEDS] and h[NEEDS][need] do ids[#ids + 1], rows[#rows + 1] = take_head(key, h, need) end
    find_top(key, h, need)
  end
  if #ids < limit and h[AWAY] > 0 then
    local away = call('ZRANGE', RUN .. 'away:' .. key, 0, limit - #ids - 1)
    for place, row in ipairs(load_rows(away)) do
      local id = away[place]
      local suspects = row[NEED] == '' and RUN .. 'suspects' or needs.suspects_of(row[NEED])
      call('ZREM', row[PLACE] == AT_SUSPECT and suspects or RUN .. 'delayed', id)
      come_back(h, id, row)
      ids[#ids + 1], rows[#rows + 1] = id, row
    end
  end
  return ids, rows
end

-- How many requests of hosts that were given up this call may still bury.
local may_bury

local function bury_piece(key, h)
  may_bury = may_bury or S.bury_batch or BATCH
  if may_bury > 0 and h[PHASE] == GIVEN_UP then
    local class, reason = unpack(unpacked(call('HGET', RUN .. 'reasons', key)))
    if class == HOST_BUDGET and not budgets.is_spent(h) then
      -- The job goes on with a larger one.
      return forgive(key, h)
    end
    local ids, rows = take_waiting(key, h, may_bury)
    if class == HOST_BUDGET then
      exclude_together(ids, rows, class, reason)
    else
      die_together(ids, rows, class, reason)
    end
    may_bury = may_bury - #ids
    if h[QUEUED] + h[AWAY] == 0 and not h[NEEDS] then
      forgive(key, h)
    else
      find_top(key, h, '')
    end
  end
  if h[PHASE] == GIVEN_UP then burying = true end
end

-- A host that is given up takes what waits for it along: a piece now, the rest with calls to come.
local function give_up(key, class, reason)
  local h = host_of(key)
  if h[PHASE] ~= GIVEN_UP and (h[QUEUED] + h[AWAY] > 0 or h[NEEDS]) then
    h[PHASE] = GIVEN_UP
    call('HSET', RUN .. 'reasons', key, pack({class, HOST_DOWN .. reason}))
  end
  bury_piece(key, h)
end

-- A host whose budget is spent, or that an operator gives up, takes what waits for it along, as one that is down does; but
-- for a budget it is excluded.
local function stop(key)
  local h = host_of(key)
  if h[QUEUED] + h[AWAY] > 0 or h[NEEDS] then mark_stopped(key, h) end
  bury_piece(key, h)
end

-- The next piece of what hosts have left that were given up.
local function bury_more()
  may_bury = may_bury or S.bury_batch or BATCH
  -- What came back in this call may have come to a host that is stopped, or have made room for one.
  if budgets.may_stop() then
    save_hosts()
    burying = false
  end
  -- Each has at least one request: one host more than may be buried tells that there are more.
  local keys = call('ZRANGE', RUN .. 'given_up', 0, may_bury)
  if #keys == 0 then return end
  load_hosts(keys)
  for _, key in ipairs(keys) do
    if may_bury == 0 then
      burying = true
      return
    end
    bury_piece(key, host_of(key))
  end
end
