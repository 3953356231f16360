-- tell: a worker says what it is at, or that it leaves; and whoever has been silent for long is forgotten.
--
--   job, workers, cards (written), RUN:held:WORKER (counted)
--
-- ARGV: time, worker, seconds of silence after which a worker that holds nothing is forgotten, card (none: it leaves).

if not load_job() then return false end
if ARGV[4] then
  call('ZADD', BASE .. 'workers', now, ARGV[2])
  call('HSET', BASE .. 'cards', ARGV[2], ARGV[4])
else
  forget_worker(ARGV[2])
end
for _, other in ipairs(call('ZRANGEBYSCORE', BASE .. 'workers', '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, BATCH)) do
  -- While it holds something it is somebody: a supervisor that comes back finds its leases by its name.
  if call('SCARD', RUN .. 'held:' .. other) == 0 then forget_worker(other) end
end
close()
return 1
