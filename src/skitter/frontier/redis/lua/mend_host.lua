-- mend_host: makes a host's record anew from its queues and leases, and puts the host where it belongs.
--
--   job, hosts, RUN:reasons and the sets that hosts stand in (written); RUN:q:P:HOST, RUN:returned:HOST, RUN:away:HOST,
--   RUN:holds, robots, and what there is of them for a need (read)
--
-- ARGV: time, host key, then queues that its record may not know (PRIORITY, PRIORITY@NEED, or @NEED), or "permitted".

if not load_job() then return false end
local key = ARGV[2]
local h = host_of(key)

-- Priorities of lists that there may be of each need.
local lists = {}
for need, queue in pairs(queues_of(h)) do
  lists[need] = {}
  for place = 1, #(queue[LEVELS] or {}), 2 do table.insert(lists[need], queue[LEVELS][place]) end
end
for place = 3, #ARGV do
  if ARGV[place] == 'permitted' then
    if h[TRUSTED] == 0 then h[TRUSTED] = 2 end
  else
    local priority, need = string.match(ARGV[place], '^([^@]*)@?(.*)$')
    lists[need] = lists[need] or {}
    if priority ~= '' then table.insert(lists[need], tonumber(priority)) end
  end
end
for need, priorities in pairs(lists) do
  local levels, queued, queue = {}, 0, needs.queue(h, need)
  table.sort(priorities, function(one, other) return one > other end)
  for place, priority in ipairs(priorities) do
    local length = call('LLEN', queue_of(key, priority, need))
    if length > 0 and priority ~= priorities[place - 1] then
      levels[#levels + 1], levels[#levels + 2] = priority, length
      queued = queued + length
    end
  end
  queue[LEVELS] = #levels > 0 and levels
  queue[QUEUED] = queued + call('ZCARD', returned_of(key, need))
  find_top(key, h, need)
  needs.forget_empty(h, need)
end
h[AWAY] = call('ZCARD', RUN .. 'away:' .. key)
h[IN_FLIGHT] = 0
for _, stored in ipairs(call('HVALS', RUN .. 'holds')) do
  if unpack_hold(stored)[HOLD_HOST] == key then h[IN_FLIGHT] = h[IN_FLIGHT] + 1 end
end
h[GATE] = call('HEXISTS', RUN .. 'holds', 'g' .. key)
if h[PHASE] == GIVEN_UP and (needs.queued(h) + h[AWAY] == 0 or call('HEXISTS', RUN .. 'reasons', key) == 0) then h[PHASE] = IDLE end
if h[PHASE] ~= GIVEN_UP then call('HDEL', RUN .. 'reasons', key) end
if h[ROBOTS_VERSION] ~= 0 and call('HEXISTS', BASE .. 'robots', key) == 0 then
  -- It is read again before the next page.
  h[ROBOTS_VERSION], h[ROBOTS_UNTIL] = 0, 0
end
-- It may not stand where its record said.
stood_at[key] = false
save_hosts()
if h[PHASE] == READY and h[QUEUED] > 0 then call('ZADD', RUN .. 'tops', -h[TOP], level(h[TOP])) end
save_job()
return 1
