-- Requests: dedup, the queue, and where a request goes when its lease has ended.
--
--   seen:N, q:P:HOST, returned:HOST, requests, delayed, suspects, away:HOST, given_up, reasons, dead, dead:CLASS,
--   errors, permits, and what there is of them for a need: see 1_job.lua

local SEQ, HOST, PRIORITY, PLACE, ATTEMPTS, LOSSES, LOSSES_ALONE, ROW_BLOCKS = 1, 2, 3, 4, 5, 6, 7, 8
local NOT_BEFORE, STATUS, ERROR_CLASS, ERROR, ENDED_AT, PAYLOAD, NEED = 9, 10, 11, 12, 13, 14, 15
-- The states (AT_QUEUED and so on) are RequestState of frontier/tables.py.
local COUNTER = {
  [AT_QUEUED] = 'queued', [AT_DELAYED] = 'delayed', [AT_LEASED] = 'leased', [AT_DONE] = 'done',
  [AT_REDIRECTED] = 'redirected', [AT_DEAD] = 'dead', [AT_EXCLUDED] = 'excluded', [AT_SUSPECT] = 'queued',
}
-- Arguments that one entry takes: id in decimal, host key, priority (with a need: PRIORITY@NEED), id and payload.
local ENTRY = 4

-- ---- dedup: buckets of packed integers, one more of them each time their mean passes job.bucket_mean

local function bucket_of(id)
  -- The last nine digits: Lua's numbers cannot hold the whole id.
  local address = math.abs(tonumber(string.sub(id, -9)))
  local bucket = address % (J.bucket_round * 2)
  if bucket >= J.buckets then bucket = address % J.bucket_round end
  return bucket
end

local function seen_key(bucket)
  return RUN .. 'seen:' .. bucket
end

local function split_bucket()
  local old, new = seen_key(J.buckets - J.bucket_round), J.buckets
  J.buckets = J.buckets + 1
  local moved = {}
  for _, id in ipairs(call('SMEMBERS', old)) do
    if bucket_of(id) == new then moved[#moved + 1] = id end
  end
  bulk('SREM', old, moved)
  bulk('SADD', seen_key(new), moved)
  if J.buckets == J.bucket_round * 2 then J.bucket_round = J.buckets end
end

local function count_seen()
  return J.queued + J.delayed + J.leased + J.done + J.redirected + J.dead + J.excluded
end

-- ---- adding

local TRUSTS, PERMITS = string.byte('!?', 1, 2)

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
-- A priority that begins with "!" comes with a permit for its host and is trusted; with "?", with a permit only.
local function add(places)
  local fresh, keys, permits = {}, {}, {}
  local seen = count_seen()
  for _, place in ipairs(places) do
    local id, key = ARGV[place], ARGV[place + 1]
    local mark = string.byte(ARGV[place + 2])
    if mark == TRUSTS or mark == PERMITS then permits[#permits + 1] = {key, mark == TRUSTS} end
    if call('SADD', seen_key(bucket_of(id)), id) == 1 then
      fresh[#fresh + 1] = place
      keys[#keys + 1] = key
      seen = seen + 1
      -- At once, not after the batch: a set that has outgrown the packed form never returns to it.
      if seen > J.buckets * J.bucket_mean then split_bucket() end
    end
  end
  load_hosts(keys)
  for _, found in ipairs(permits) do permit(found[1], found[2]) end
  local lists = {}
  for _, place in ipairs(fresh) do
    local key, priority = ARGV[place + 1], ARGV[place + 2]
    local mark = string.byte(priority)
    priority = (mark == TRUSTS or mark == PERMITS) and string.sub(priority, 2) or priority
    local number, need = tonumber(priority), ''
    if not number then
      number, need = string.match(priority, '^(.+)@(.+)$')
      number = tonumber(number)
      needs.count(need, 1)
    end
    local waiting = host_of(key)
    if need ~= '' then waiting = needs.queue(waiting, need) end
    joined_queue(waiting, number)
    count_level(waiting, number, 1)
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
    or row[NEED] ~= '' then
    local need = row[NEED] ~= '' and row[NEED] or nil
    failure = pack({row[NOT_BEFORE], row[STATUS], row[ERROR_CLASS], row[ERROR], row[ENDED_AT], need})
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
    row[ENDED_AT], row[NEED] = failure[5], failure[6] or ''
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
  move(row, AT_DEAD)
  call('ZADD', RUN .. 'dead', row[SEQ], id)
  call('ZADD', RUN .. 'dead:' .. row[ERROR_CLASS], row[SEQ], id)
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
    move(row, AT_DEAD)
    marks[#marks + 1], fields[#fields + 1] = row[SEQ], id
    marks[#marks + 1], fields[#fields + 1] = id, pack_row(row)
  end
  count_error(class, #ids)
  bulk('ZADD', RUN .. 'dead', marks)
  bulk('ZADD', RUN .. 'dead:' .. class, marks)
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
    if class == HOST_BUDGET and not is_spent(h) then
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
    call('HSET', RUN .. 'reasons', key, pack({class, 'the host is down: ' .. reason}))
  end
  bury_piece(key, h)
end

-- A host whose budget is spent takes what waits for it along, as one that is down does; but excluded.
local function stop(key)
  local h = host_of(key)
  if h[QUEUED] + h[AWAY] > 0 or h[NEEDS] then mark_stopped(key, h) end
  bury_piece(key, h)
end

-- The next piece of what hosts have left that were given up.
local function bury_more()
  may_bury = may_bury or S.bury_batch or BATCH
  -- What came back in this call may have come to a host that has no budget left, or have made room for one.
  if has_budgets() then
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
