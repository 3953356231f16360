-- check_members: compares members of indexes with the records that they name.
--
--   job, hosts, workers, heartbeats, RUN:requests, RUN:holds, RUN:ready:P, RUN:waiting, RUN:given_up, RUN:parked,
--   RUN:returned:HOST, RUN:delayed, RUN:suspects, RUN:away:HOST, RUN:failed, RUN:failed:CLASS, RUN:held:WORKER, RUN:alone,
--   RUN:seen:N, RUN:kept:N, RUN:generation:G:N, delivered:N, RUN:permits, RUN:errors, pages, records, due, and what there is of
--   them for a need (read)
--
-- ARGV: time, kind, most members to look at, then for each key of this kind: what stands behind its kind, or nothing, and
-- where to go on.
-- Answers faults, the number of members looked at, and for each key where to go on ("0": it is through).

if not load_job() then return false end
local kind, left, total, answer = ARGV[2], tonumber(ARGV[3]), 0, {}

local function remove(key, member)
  return 'mend_request', 'remove', key, member
end

-- A host that stands where its record does not say.
local function check_host(name, member)
  local key = kind == 'parked' and addresses.parked_key(member) or member
  local h = host_in_run(key)
  for _, stand in ipairs(h and all_stands_of(key, h) or {}) do
    if stand[1] == RUN .. name and stand[3] == member then return end
  end
  fault('host_index', key, 'its place in ' .. name, 'none', 'one', remove(name, member))
end

local places = {
  returned = {[AT_QUEUED] = true}, returned_for = {[AT_QUEUED] = true}, delayed = {[AT_DELAYED] = true},
  suspects = {[AT_SUSPECT] = true}, suspects_for = {[AT_SUSPECT] = true},
  away = {[AT_DELAYED] = true, [AT_SUSPECT] = true}, failed = {[AT_FAILED] = true},
}

-- A request that stands in an index of one place, and is in another, or in none.
local function check_request(name, member, suffix)
  local is_returned = kind == 'returned' or kind == 'returned_for'
  local id = is_returned and string.sub(member, -8) or member
  local stored = call('HGET', RUN .. 'requests', id)
  if not stored then
    local is_leased = call('HEXISTS', RUN .. 'holds', id) == 1
    if is_leased then return fault('two_places', shown(id), 'places', 'holds', 'holds and ' .. name, remove(name, member)) end
    return fault('no_request', shown(id), 'the record of what stands in ' .. name, 'one', 'none')
  end
  local row = unpack_row(stored, 1)
  local is_here = places[kind][row[PLACE]]
  if is_returned then
    is_here = is_here and returned_of(row[HOST], row[NEED]) == RUN .. name and returned_member(id, row) == member
  elseif kind == 'suspects' or kind == 'suspects_for' then
    is_here = is_here and suspects_of(row[NEED]) == name
  end
  if kind == 'away' then is_here = is_here and row[HOST] == suffix end
  if kind == 'failed' and suffix ~= '' then is_here = is_here and row[ERROR_CLASS] == suffix end
  if not is_here then
    fault('two_places', shown(id), 'its place in ' .. name, 'none', 'one', remove(name, member))
  end
end

local function check_held(name, member, worker)
  local stored = call('HGET', RUN .. 'holds', member)
  if not stored or unpack_hold(stored)[WORKER] ~= worker then
    fault('lease_worker', worker, 'a lease in ' .. name, 'its own', 'none', remove(name, member))
  end
end

local function check_alone(name, worker)
  for _, hold in ipairs(load_holds(call('SMEMBERS', RUN .. 'held:' .. worker))) do
    if hold and hold[ALONE] then return end
  end
  fault('lease_worker', worker, 'a lease that is alone', 'one', 'none', remove(name, worker))
end

local function check_bucket(name, id)
  local key = (kind == 'delivered' and BASE or RUN) .. name
  local record, prefix = exact_set_of(key)
  -- A generation may be too old by now.
  if record and prefix .. exact.bucket_of(record, id) ~= key then
    local set, bucket = string.match(name, '^(.*):(%d+)$')
    fault('seen_bucket', 'request ' .. id, 'where ' .. set .. ' has it', exact.bucket_of(record, id), bucket,
      'mend_request', 'move', id, key)
  end
end

-- Known pages: each has a time when it is due, and a record or none.
local function check_page(_, id)
  if not call('ZSCORE', BASE .. 'due', id) then
    fault('known_page', shown(id), 'when it is due', 'some time', 'never', 'mend_request', 'due', id)
  end
end

local function check_due(name, id)
  if call('HEXISTS', BASE .. 'pages', id) == 0 then
    fault('known_page', shown(id), 'a page in ' .. name, 'known', 'unknown', 'mend_request', 'forget', id)
    return
  end
  local due, expected = call('ZSCORE', BASE .. 'due', id), next_at(id)
  if due and expected and tonumber(due) ~= expected then
    fault('known_page', shown(id), 'when it is due', text(expected), due, 'mend_request', 'due', id)
  end
end

local function check_heartbeat(_, worker)
  if not call('ZSCORE', BASE .. 'workers', worker) then
    fault('worker_heartbeat', worker, 'the worker of a heartbeat', 'known', 'unknown', 'mend_request', 'heartbeat', worker)
  end
end

local function check_permit(_, key)
  local h = host_in_run(key)
  -- Of a job with shards, another one may have the host.
  if not J.shards and (not h or h[TRUSTED] == 0) then
    fault('permit', key, 'whether it is permitted', true, false, 'mend_host', key, 'permitted')
  end
end

-- How many have failed of a class.
local function check_class(name, class)
  local failed, counted = call('ZCARD', RUN .. name), tonumber(call('HGET', RUN .. 'errors', class) or 0)
  if failed ~= counted then
    fault('errors_count', 'errors', 'failed of class ' .. class, failed, counted, 'mend_job', 'error', class)
  end
end

local scans = {
  held = 'SSCAN', alone = 'SSCAN', seen = 'SSCAN', kept = 'SSCAN', generation = 'SSCAN', delivered = 'SSCAN', heartbeats = 'HSCAN',
  pages = 'HSCAN', records = 'HSCAN',
}
local is_of_all_runs = {heartbeats = true, delivered = true, pages = true, records = true, due = true}
local checks = {
  ready = check_host, ready_for = check_host, waiting = check_host, given_up = check_host, parked = check_host,
  returned = check_request, returned_for = check_request, delayed = check_request, suspects = check_request,
  suspects_for = check_request, away = check_request, failed = check_request, held = check_held, alone = check_alone,
  seen = check_bucket, kept = check_bucket, generation = check_bucket, delivered = check_bucket, heartbeats = check_heartbeat,
  permits = check_permit, pages = check_page, records = check_due, due = check_due,
}

local function members_of(key, cursor)
  if kind == 'permits' then
    local first = tonumber(cursor)
    local found = call('LRANGE', key, first, first + left - 1)
    return #found < left and '0' or first + #found, found, 1
  end
  local scanned = call(scans[kind] or 'ZSCAN', key, cursor, 'COUNT', left)
  return scanned[1], scanned[2], scans[kind] == 'SSCAN' and 1 or 2
end

for place = 4, #ARGV, 2 do
  local suffix, cursor = ARGV[place], ARGV[place + 1]
  local name = suffix == '' and kind or kind .. ':' .. suffix
  if left > 0 then
    if kind == 'failed' and suffix ~= '' and cursor == '0' then check_class(name, suffix) end
    local members, step
    cursor, members, step = members_of((is_of_all_runs[kind] and BASE or RUN) .. name, cursor)
    for member = 1, #members, step do checks[kind](name, members[member], suffix) end
    left, total = left - math.max(1, #members / step), total + #members / step
    -- It may be 0 by now: then the next call goes on with the next key.
  else
    cursor = 'wait ' .. cursor
  end
  answer[#answer + 1] = tostring(cursor)
end
return {faults, total, answer}
