-- mend_host: makes a host's record anew from its queues and leases, and puts the host where it belongs.
--
--   job, hosts, RUN:reasons and the sets that hosts stand in (written); RUN:q:P:HOST, RUN:returned:HOST, RUN:away:HOST,
--   RUN:holds, robots (read)
--
-- ARGV: time, host key, then priorities of queues that its record may not know, or "permitted".

if not load_job() then return false end
local key = ARGV[2]
local h = host_of(key)

local priorities, levels = {}, {}
for place = 1, #(h[LEVELS] or {}), 2 do priorities[#priorities + 1] = h[LEVELS][place] end
for place = 3, #ARGV do
  if ARGV[place] == 'permitted' then
    if h[TRUSTED] == 0 then h[TRUSTED] = 2 end
  else
    priorities[#priorities + 1] = tonumber(ARGV[place])
  end
end
table.sort(priorities, function(one, other) return one > other end)
local queued = 0
for place, priority in ipairs(priorities) do
  local length = call('LLEN', queue_of(key, priority))
  if length > 0 and priority ~= priorities[place - 1] then
    levels[#levels + 1], levels[#levels + 2] = priority, length
    queued = queued + length
  end
end
h[LEVELS] = #levels > 0 and levels
h[QUEUED] = queued + call('ZCARD', RUN .. 'returned:' .. key)
h[AWAY] = call('ZCARD', RUN .. 'away:' .. key)
find_top(key, h)
h[IN_FLIGHT] = 0
for _, stored in ipairs(call('HVALS', RUN .. 'holds')) do
  if unpack_hold(stored)[HOLD_HOST] == key then h[IN_FLIGHT] = h[IN_FLIGHT] + 1 end
end
h[GATE] = call('HEXISTS', RUN .. 'holds', 'g' .. key)
if h[PHASE] == GIVEN_UP and (h[QUEUED] + h[AWAY] == 0 or call('HEXISTS', RUN .. 'reasons', key) == 0) then h[PHASE] = IDLE end
if h[PHASE] ~= GIVEN_UP then call('HDEL', RUN .. 'reasons', key) end
if h[ROBOTS_VERSION] ~= 0 and call('HEXISTS', BASE .. 'robots', key) == 0 then
  -- It is read again before the next page.
  h[ROBOTS_VERSION], h[ROBOTS_UNTIL] = 0, 0
end
-- It may not stand where its record said.
stood_at[key] = false
save_hosts()
if h[PHASE] == READY then call('ZADD', RUN .. 'tops', -h[TOP], level(h[TOP])) end
save_job()
return 1
