-- check_queues: looks through queues of hosts, from the end as trace.lua does: what is added or leased meanwhile
-- cannot push a request out of sight.
--
--   job, hosts, RUN:q:P:HOST, RUN:q_for:NEED:P:HOST, RUN:requests, RUN:holds, RUN:seen:N (read)
--
-- ARGV: time, most requests to look at, then for each queue: need or nothing, priority, host key, number of requests already
-- looked at.
-- Answers faults, the number of requests looked at, and for each queue the number so far, -1 when it is through.

if not load_job() then return false end
local left, total, answer = tonumber(ARGV[2]), 0, {}

local function check_record(key, priority, need, list)
  local h, length = host_in_run(key), call('LLEN', list)
  if length == 0 then return end
  local name = need == '' and priority or priority .. '@' .. need
  if not h then
    return fault('host_missing', key, 'its record', 'one', 'none', 'mend_host', key, name)
  end
  local queue = queues_of(h)[need]
  local levels, number = queue and queue[LEVELS] or {}, 0
  for place = 1, #levels, 2 do
    if level(levels[place]) == priority then number = levels[place + 1] end
  end
  if number == 0 then
    fault('host_queue', key, 'queued with priority ' .. name, length, 0, 'mend_host', key, name)
  end
end

local function check_elements(key, priority, need, elements, first)
  local newer = math.huge
  for place = #elements, 1, -1 do
    local element = elements[place]
    local seq, id = struct.unpack('>I5', element), string.sub(element, 6, 13)
    if seq >= newer then
      fault('two_places', shown(id), 'its number in the queue of ' .. key, 'less than ' .. newer, seq,
        'mend_request', 'unqueue', id, key, priority, element, need)
    end
    newer = seq
    if place <= first then
      check_seen(id)
      check_seq(id, seq)
      for _, name in ipairs({'requests', 'holds'}) do
        if call('HEXISTS', RUN .. name, id) == 1 then
          fault('two_places', shown(id), 'places', name, name .. ' and the queue of ' .. key,
            'mend_request', 'unqueue', id, key, priority, element, need)
        end
      end
    end
  end
end

for place = 3, #ARGV, 4 do
  local need, priority, key, looked = ARGV[place], ARGV[place + 1], ARGV[place + 2], tonumber(ARGV[place + 3])
  local queue = RUN .. (need == '' and 'q:' or 'q_for:' .. need .. ':') .. priority .. ':' .. key
  if left > 0 then
    if looked == 0 then check_record(key, priority, need, queue) end
    -- One that was looked at before comes along, to be compared with.
    local overlap = looked > 0 and 1 or 0
    local elements = call('LRANGE', queue, -looked - left, -looked - 1 + overlap)
    check_elements(key, priority, need, elements, #elements - overlap)
    local seen = math.max(0, #elements - overlap)
    looked = seen < left and -1 or looked + seen
    left, total = left - seen, total + seen
  end
  answer[#answer + 1] = looked
end
return {faults, total, answer}
