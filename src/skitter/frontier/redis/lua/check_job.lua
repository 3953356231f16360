-- check_job: compares the job's record with the outbox, the sinks, and the lists that are short.
--
--   job, hosts, RUN:holds, RUN:items, RUN:sinks, RUN:errors, RUN:failed:CLASS, RUN:permits,
--   RUN:permitted, RUN:intakes, RUN:jars, RUN:jar_order, RUN:jar_domains (read)
--
-- ARGV: time. Answers faults and the number of items.

if not load_job() then return false end

local function check_outbox()
  local number, least = call('LLEN', RUN .. 'items'), math.huge
  if J.first_item + number ~= J.position + 1 then
    fault('outbox', 'outbox', 'items from position ' .. J.first_item .. ' on', J.position + 1 - J.first_item, number)
  end
  for target, sink in pairs(load_sinks()) do
    least = math.min(least, sink[POSITION])
    if sink[POSITION] > J.position then
      fault('sink_position', target, 'its position', J.position .. ' at most', sink[POSITION])
    elseif sink[POSITION] < J.first_item - 1 then
      fault('sink_position', target, 'items after position ' .. sink[POSITION], 'in the outbox', 'gone')
    end
  end
  if number > 0 and least == math.huge then
    -- It may be the sink's record that is missing.
    fault('outbox_leftover', 'outbox', 'items without a sink', 0, number)
  elseif number > 0 and J.first_item <= least then
    fault('outbox_leftover', 'outbox', 'the first position', least + 1, J.first_item, 'mend_job', 'items')
  end
  return number
end

-- Classes of which there have failed are compared one by one (check_members.lua).
local function check_errors()
  local counted = call('HGETALL', RUN .. 'errors')
  for place = 1, #counted, 2 do
    local class = counted[place]
    if call('EXISTS', RUN .. 'failed:' .. class) == 0 then
      fault('errors_count', 'errors', 'failed of class ' .. class, 0, counted[place + 1], 'mend_job', 'error', class)
    end
  end
end

local function check_intakes()
  local opened, stored = 0, call('HGETALL', RUN .. 'intakes')
  for place = 2, #stored, 2 do
    if not unpacked(stored[place])[1] then opened = opened + 1 end
  end
  if opened ~= (J.intakes or 0) then
    fault('intakes_count', 'job', 'open intakes', opened, J.intakes or 0, 'mend_job', 'set', 'intakes', opened)
  end
end

-- A jar that is not in its indexes would be told to nobody, and never give way.
local function check_jars()
  local number, ranked, of_domains = call('HLEN', RUN .. 'jars'), call('ZCARD', RUN .. 'jar_order'), 0
  for _, value in ipairs(call('HVALS', RUN .. 'jar_domains')) do
    of_domains = of_domains + (tonumber(string.match(value, ' (%d+)$')) or 0)
  end
  if number ~= (J.jars or 0) or number ~= ranked or number ~= of_domains then
    local found = (J.jars or 0) .. ', ' .. ranked .. ', ' .. of_domains
    fault('jars_count', 'job', 'jars of cookies, by record, order and domains', number, found, 'mend_job', 'jars')
  end
end

local function check_state()
  if J.shards then
    if J.state == 'finished' and not is_idle() then
      fault('state', 'job', 'its state', 'not finished', J.state)
    end
  elseif (J.state == 'finished') ~= is_idle() then
    fault('state', 'job', 'its state', is_idle() and 'finished' or 'not finished', J.state, 'mend_job', 'state')
  end
end

local function check_lists()
  for key, length in pairs(J.crowded) do
    local h = host_in_run(key)
    local queued = h and needs.queued(h) or 0
    if queued ~= length then
      fault('crowded', key, 'the length of its queue', queued, length, 'mend_job', 'crowded', key)
    end
  end
  if J.shards and J.shard == 0 then
    local listed, known = call('LLEN', RUN .. 'permits'), call('SCARD', RUN .. 'permitted')
    if listed ~= J.permits or known ~= listed then
      fault('permit', 'permits', 'entries, by list, set and record', listed, listed .. ', ' .. known .. ', ' .. J.permits)
    end
  end
end

check_errors()
local items = check_outbox()
check_intakes()
check_jars()
check_state()
check_lists()
return {faults, items}
