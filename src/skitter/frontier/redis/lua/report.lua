-- report: everything that status shows, from one instant.
--
--   job, spec, hosts, workers, cards, RUN:tally, RUN:errors, RUN:sinks, RUN:held:WORKER, RUN:holds, RUN:deadlines, RUN:notable
--   (read)
--
-- ARGV: time, number of hosts.
-- Answers job, spec, now, tally, errors, sinks, workers {id, heard at, leased, card, ...}, slow hosts {key, score, told,
-- ...}, hosts with long queues {key, length, told, ...}, deadline of the lease that is most overdue (now: none is).

if not load_job() then return false end
local workers, told = call('ZRANGE', BASE .. 'workers', 0, -1), {}
local cards = fetch(BASE .. 'cards', workers)
for place, worker in ipairs(workers) do
  told[#told + 1] = worker
  told[#told + 1] = call('ZSCORE', BASE .. 'workers', worker)
  told[#told + 1] = call('SCARD', RUN .. 'held:' .. worker)
  told[#told + 1] = cards[place]
end
local hosts_told = {}
for _, key in ipairs(call('ZRANGE', RUN .. 'notable', 0, -1)) do
  hosts_told[#hosts_told + 1] = key
  hosts_told[#hosts_told + 1] = call('ZSCORE', RUN .. 'notable', key)
  hosts_told[#hosts_told + 1] = tell_host(key)
end
local crowded_told = {}
for key, length in pairs(J.crowded) do
  crowded_told[#crowded_told + 1] = key
  crowded_told[#crowded_told + 1] = length
  crowded_told[#crowded_told + 1] = tell_host(key)
end
-- As the reaper looks for them: a worker stands here early, and its leases tell.
local first = now
for _, worker in ipairs(call('ZRANGEBYSCORE', RUN .. 'deadlines', '-inf', now, 'LIMIT', 0, BATCH)) do
  for _, hold in ipairs(load_holds(call('SMEMBERS', RUN .. 'held:' .. worker))) do
    first = math.min(first, hold[DEADLINE])
  end
end
return {
  call('GET', KEYS[1]), call('GET', BASE .. 'spec'), text(now), call('HGETALL', RUN .. 'tally'),
  call('HGETALL', RUN .. 'errors'), call('HGETALL', RUN .. 'sinks'), told, hosts_told, crowded_told,
  text(first),
}
