-- check_hosts: compares the records of some hosts with their queues, their robots.txt, and the sets that they stand in.
--
--   job, hosts, robots, RUN:q:P:HOST, RUN:returned:HOST, RUN:away:HOST, RUN:holds, RUN:reasons, RUN:ready:P, RUN:tops,
--   RUN:waiting, RUN:parked, RUN:given_up, and what there is of them for a need (read)
--
-- ARGV: time, where to go on, how many. Answers where to go on, faults, number of hosts, keys of those that have something
-- in flight.

if not load_job() then return false end

local function wrong_phase(h)
  local phase = h[PHASE]
  if phase == GIVEN_UP then return end
  local has_queue = phase == READY or phase == WAITING or phase == FULL or phase == PARKED
  local waits = h[QUEUED] > 0 or h[NEEDS] ~= false
  if has_queue ~= waits then return waits and 'one with a queue' or 'idle' end
  if phase == FULL and h[IN_FLIGHT] == 0 and h[HALT] ~= HALT_PAUSED then return 'not full: nothing is in flight' end
  if (phase == READY or phase == PARKED) and due_at(h) > now then return 'waiting' end
end

local function check_queue(key, queue, need)
  local levels, listed, of = queue[LEVELS] or {}, 0, need == '' and '' or ' of need ' .. need
  for place = 1, #levels, 2 do
    local length = call('LLEN', queue_of(key, levels[place], need))
    listed = listed + length
    if length ~= levels[place + 1] then
      local what = 'queued with priority ' .. level(levels[place]) .. of
      fault('host_queue', key, what, length, levels[place + 1], 'mend_host', key)
    end
  end
  local returned = call('ZRANGE', returned_of(key, need), 0, 0, 'WITHSCORES')
  local queued = listed + call('ZCARD', returned_of(key, need))
  if queued ~= queue[QUEUED] then
    fault('host_queue', key, 'queued' .. of, queued, queue[QUEUED], 'mend_host', key)
  elseif need ~= '' and queued == 0 then
    fault('host_queue', key, 'a queue' .. of, 'none', 'an empty one', 'mend_host', key)
  end
  local top = levels[1]
  if returned[2] and (not top or -tonumber(returned[2]) > top) then top = -tonumber(returned[2]) end
  if queue[QUEUED] > 0 and top and top ~= queue[TOP] then
    fault('host_queue', key, 'its highest priority' .. of, level(top), level(queue[TOP]), 'mend_host', key)
  end
end

local function check_away(key, h)
  local away = call('ZCARD', RUN .. 'away:' .. key)
  if away ~= h[AWAY] then fault('host_queue', key, 'delayed and suspect', away, h[AWAY], 'mend_host', key) end
end

local function check_stand(key, h)
  local is_given_up, has_reason = h[PHASE] == GIVEN_UP, call('HEXISTS', RUN .. 'reasons', key) == 1
  if is_given_up ~= has_reason then
    fault('host_reason', key, 'a reason for being given up', is_given_up, has_reason, 'mend_host', key)
  elseif is_given_up and h[QUEUED] + h[AWAY] == 0 and not h[NEEDS] then
    fault('host_reason', key, 'given up, with a queue to bury', 'not given up', 'nothing waits', 'mend_host', key)
  end
  local expected = wrong_phase(h)
  if expected then fault('host_phase', key, 'its phase', expected, h[PHASE], 'mend_host', key) end
  for _, stand in ipairs(all_stands_of(key, h)) do
    local set, score, name = unpack(stand)
    local there = call('ZSCORE', set, name)
    if not there or tonumber(there) ~= score then
      local place = string.sub(set, #RUN + 1)
      fault('host_index', key, 'its place in ' .. place, text(score), there or 'none', 'mend_host', key)
    end
  end
  for need, queue in pairs(h[PHASE] == READY and queues_of(h) or {}) do
    local tops = need == '' and 'tops' or 'tops_for:' .. need
    if queue[QUEUED] > 0 and not call('ZSCORE', RUN .. tops, level(queue[TOP])) then
      fault('host_index', key, 'its priority in ' .. tops, level(queue[TOP]), 'none', 'mend_host', key)
    end
  end
end

local scanned, in_flight = call('HSCAN', BASE .. 'hosts', ARGV[2], 'COUNT', ARGV[3]), {}
local found = scanned[2]
for place = 1, #found, 2 do
  local key, h = found[place], unpack_host(found[place + 1])
  if h[ROBOTS_VERSION] ~= 0 and call('HEXISTS', BASE .. 'robots', key) == 0 then
    fault('robots', key, 'its robots.txt', 'stored', 'missing', 'mend_host', key)
  end
  if h[RUN_OF] == J.run then
    for need, queue in pairs(queues_of(h)) do check_queue(key, queue, need) end
    check_away(key, h)
    check_stand(key, h)
    local gate = call('HEXISTS', RUN .. 'holds', 'g' .. key)
    if gate ~= h[GATE] then
      fault('host_in_flight', key, 'whether its robots.txt is read', gate, h[GATE], 'mend_host', key)
    end
    if h[IN_FLIGHT] > 0 then in_flight[#in_flight + 1] = key end
  end
end
return {scanned[1], faults, #found / 2, in_flight}
