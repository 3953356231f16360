-- check_requests: compares some of the requests that have a record with the places where they are looked for.
--
--   job, hosts, RUN:requests, RUN:holds, RUN:seen:N, RUN:returned:HOST, RUN:delayed, RUN:suspects, RUN:away:HOST, RUN:failed,
--   RUN:failed:CLASS, and what there is of them for a need (read)
--
-- ARGV: time, where to go on, how many. Answers where to go on, faults, and the number of requests.

if not load_job() then return false end

local function check_member(id, name, member, score)
  local there = call('ZSCORE', RUN .. name, member)
  if not there then
    fault('no_place', shown(id), name, 'has it', 'has not', 'mend_request', 'place', id)
  elseif tonumber(there) ~= score then
    fault('request_index', shown(id), name, text(score), there, 'mend_request', 'place', id)
  end
end

local scanned = call('HSCAN', RUN .. 'requests', ARGV[2], 'COUNT', ARGV[3])
local found = scanned[2]
for place = 1, #found, 2 do
  local id, row = found[place], unpack_row(found[place + 1], 1)
  local at = row[PLACE]
  check_seen(id)
  check_seq(id, row[SEQ])
  if call('HEXISTS', RUN .. 'holds', id) == 1 then
    fault('two_places', shown(id), 'places', 'one', 'requests and holds', 'mend_request', 'place', id)
  end
  local h = host_in_run(row[HOST])
  if not h then
    fault('host_missing', row[HOST], 'its record', 'one', 'none', 'mend_host', row[HOST])
  end
  if at == AT_QUEUED then
    local need = row[NEED]
    if h and not queues_of(h)[need] then
      fault('host_queue', row[HOST], 'a queue of need ' .. need, 'one', 'none', 'mend_host', row[HOST], '@' .. need)
    end
    check_member(id, string.sub(returned_of(row[HOST], need), #RUN + 1), returned_member(id, row), -row[PRIORITY])
  elseif at == AT_DELAYED then
    check_member(id, 'delayed', id, row[NOT_BEFORE])
    check_member(id, 'away:' .. row[HOST], id, row[SEQ])
  elseif at == AT_SUSPECT then
    check_member(id, suspects_of(row[NEED]), id, row[SEQ])
    check_member(id, 'away:' .. row[HOST], id, row[SEQ])
  elseif at == AT_FAILED then
    check_member(id, 'failed', id, row[SEQ])
    check_member(id, 'failed:' .. row[ERROR_CLASS], id, row[SEQ])
  elseif at ~= AT_EXCLUDED then
    fault('no_place', shown(id), 'its place', 'one of a request with a record', at, 'mend_request', 'place', id)
  end
end
return {scanned[1], faults, #found / 2}
