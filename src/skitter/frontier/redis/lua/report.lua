-- report: everything that status shows, from one instant.
--
--   job, begun, spec, hosts, workers, heartbeats, RUN:tally, RUN:errors, RUN:sinks, RUN:held:WORKER, RUN:holds, RUN:deadlines, RUN:notable
--   (read)
--
-- ARGV: time, whether slow hosts are wanted, whether long queues are, token of the spec that the client has.
-- Answers job, {token of the spec, spec unless the client has it}, now, tally, errors, sinks, workers {id, heard at, leased, heartbeat, ...}, slow hosts {key, score, told,
-- ...}, hosts with long queues {key, length, told, ...}, deadline of the lease that is most overdue (now: none is), needs
-- of what is queued {name, how many, ...}, msgpack: items and bits set of each sub-filter of a Bloom filter, or false.

if not load_job() then return false end
-- The spec may hold a hundred thousand seeds. Each begin and each change of settings writes it, and has a token of its own.
local begun = call('GET', BASE .. 'begun')
begun = begun and unpacked(begun)
local token = begun and (begun[4] or begun[1]) or ''
local spec = (token == '' or token ~= ARGV[4]) and call('GET', BASE .. 'spec')
local hosts_told = {}
for _, key in ipairs(ARGV[2] == '1' and call('ZRANGE', RUN .. 'notable', 0, -1) or {}) do
  hosts_told[#hosts_told + 1] = key
  hosts_told[#hosts_told + 1] = call('ZSCORE', RUN .. 'notable', key)
  hosts_told[#hosts_told + 1] = tell_host(key)
end
local crowded_told = {}
for key, length in pairs(ARGV[3] == '1' and J.crowded or {}) do
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
  call('GET', KEYS[1]), {token, spec}, text(now), call('HGETALL', RUN .. 'tally'), call('HGETALL', RUN .. 'errors'),
  call('HGETALL', RUN .. 'sinks'), list_workers(), hosts_told, crowded_told, text(first),
  J.needy and call('HGETALL', RUN .. 'needs') or {},
  J.intakes and call('HGETALL', RUN .. 'intakes') or {},
  S.layout and pack({seen.load().items, seen.load().ones}) or false,
}
