-- mend_request: puts a request into the seen set or into its place, or takes it out of a place that is not its own.
--
--   job, RUN:requests and its indexes, RUN:q:P:HOST, RUN:holds, RUN:held:WORKER, RUN:seen:N, heartbeats (written)
--
-- ARGV: time, step, then for
--   "seen"     id, id in decimal: it joins the seen set
--   "move"     id in decimal, the bucket where it stands: it goes to where it is looked for
--   "due"      id: a known page is due when its record says; if it has none, now
--   "forget"   id: a page that is not known is due no more
--   "place"    id: its record decides; a lease of what has ended is dropped, and the record of what is leased
--   "unqueue"  id, host key, priority, element, need: the element leaves its queue. What stands nowhere else then goes on as a
--              request that came back: it keeps its number, and is not lost
--   "remove"   name of a set, member
--   "heartbeat"     worker

if not load_job() then return false end
local step, id = ARGV[2], ARGV[3]

local function drop_hold(lease_key)
  local hold = load_holds({lease_key})[1]
  if not hold then return end
  call('HDEL', RUN .. 'holds', lease_key)
  call('SREM', RUN .. 'held:' .. hold[WORKER], lease_key)
  if hold[ALONE] then call('SREM', RUN .. 'alone', hold[WORKER]) end
  if hold[STAGED] then call('DEL', RUN .. 'staged:' .. format('%d', hold[EPOCH])) end
end

local function put_in_place(row)
  local at = row[PLACE]
  if at ~= AT_QUEUED and at ~= AT_DELAYED and at ~= AT_SUSPECT and at ~= AT_FAILED and at ~= AT_EXCLUDED then
    at = row[LOSSES] >= LOSSES_BEFORE_ALONE and AT_SUSPECT or AT_QUEUED
    row[PLACE] = at
    save_row(id, row)
  end
  if at == AT_QUEUED then
    call('ZADD', returned_of(row[HOST], row[NEED]), -row[PRIORITY], returned_member(id, row))
  elseif at == AT_FAILED then
    call('ZADD', RUN .. 'failed', row[SEQ], id)
    call('ZADD', RUN .. 'failed:' .. row[ERROR_CLASS], row[SEQ], id)
  elseif at ~= AT_EXCLUDED then
    call('ZADD', RUN .. 'away:' .. row[HOST], row[SEQ], id)
    if at == AT_DELAYED then
      call('ZADD', RUN .. 'delayed', row[NOT_BEFORE], id)
    else
      call('ZADD', RUN .. suspects_of(row[NEED]), row[SEQ], id)
    end
  end
end

local function take_out(row)
  call('ZREM', returned_of(row[HOST], row[NEED]), returned_member(id, row))
  for _, name in ipairs({'delayed', suspects_of(row[NEED]), 'away:' .. row[HOST]}) do call('ZREM', RUN .. name, id) end
  call('HDEL', RUN .. 'requests', id)
end

local steps = {
  -- How many they are is counted when all of them are there.
  seen = function() call('SADD', RUN .. 'seen:' .. exact.bucket_of(J.seen, ARGV[4]), ARGV[4]) end,
  move = function()
    local record, prefix = exact_set_of(ARGV[4])
    if not record then return end
    call('SREM', ARGV[4], id)
    call('SADD', prefix .. exact.bucket_of(record, id), id)
  end,
  due = function()
    call('ZADD', BASE .. 'due', text(next_at(id) or now), id)
  end,
  forget = function()
    call('ZREM', BASE .. 'due', id)
    call('HDEL', BASE .. 'records', id)
  end,
  place = function()
    local row = load_rows({id})[1]
    if not row then return end
    if call('HEXISTS', RUN .. 'holds', id) == 1 then
      if row[PLACE] ~= AT_FAILED and row[PLACE] ~= AT_EXCLUDED then return take_out(row) end
      drop_hold(id)
    end
    put_in_place(row)
  end,
  unqueue = function()
    local key, priority, element, need = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
    local queue = queue_of(key, priority, need)
    if call('LREM', queue, 1, element) == 0 then return end
    if call('HEXISTS', RUN .. 'requests', id) + call('HEXISTS', RUN .. 'holds', id) > 0 then return end
    for _, other in ipairs(call('LRANGE', queue, 0, -1)) do
      if string.sub(other, 6, 13) == id then return end
    end
    local row = {
      struct.unpack('>I5', element), key, priority, AT_QUEUED, 0, 0, 0, 0, 0, 0, '', '', 0, string.sub(element, 14),
      need,
    }
    save_row(id, row)
    put_in_place(row)
  end,
  remove = function()
    local key = RUN .. ARGV[3]
    if call('TYPE', key).ok == 'set' then
      call('SREM', key, ARGV[4])
    else
      call('ZREM', key, ARGV[4])
    end
  end,
  heartbeat = function() call('HDEL', BASE .. 'heartbeats', ARGV[3]) end,
}
steps[step]()
save_job()
return 1
