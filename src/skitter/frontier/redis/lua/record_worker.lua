-- record_worker: a worker says what it is at, or that it leaves; and whoever has been silent for long is forgotten.
--
--   job, workers, heartbeats (written), RUN:held:WORKER (counted)
--
-- ARGV: time, worker, seconds of silence after which a worker that holds nothing is forgotten, whether it leaves, its heartbeat
-- or nothing (the lead of a job in shards keeps it).
-- Answers, for a shard, those who would be forgotten: other shards may have heard of them (forget_workers.lua).

if not load_job() then return false end
local worker, leaves, heartbeat, silent = ARGV[2], ARGV[4] == '1', ARGV[5], {}
if leaves then
  forget_worker(worker)
else
  call('ZADD', BASE .. 'workers', now, worker)
  if heartbeat ~= '' then call('HSET', BASE .. 'heartbeats', worker, heartbeat) end
end
for _, other in ipairs(call('ZRANGEBYSCORE', BASE .. 'workers', '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, BATCH)) do
  -- While it holds something it is somebody: a supervisor that comes back finds its leases by its name.
  if call('SCARD', RUN .. 'held:' .. other) == 0 then
    if J.shards then
      silent[#silent + 1] = other
    else
      forget_worker(other)
    end
  end
end
close()
return silent
