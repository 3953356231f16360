-- tell: a worker says what it is at, or that it leaves; and whoever has been silent for long is forgotten.
--
--   job, workers, cards (written), RUN:held:WORKER (counted)
--
-- ARGV: time, worker, seconds of silence after which a worker that holds nothing is forgotten, whether it leaves, its card
-- or nothing (the lead of a job in shards keeps it), workers that hold something in other shards...
-- Answers those who are silent and hold something.

if not load_job() then return false end
local worker, leaves, card, kept, holding = ARGV[2], ARGV[4] == '1', ARGV[5], {}, {}
for place = 6, #ARGV do kept[ARGV[place]] = true end
if leaves then
  forget_worker(worker)
else
  call('ZADD', BASE .. 'workers', now, worker)
  if card ~= '' then call('HSET', BASE .. 'cards', worker, card) end
end
for _, other in ipairs(call('ZRANGEBYSCORE', BASE .. 'workers', '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, BATCH)) do
  -- While it holds something it is somebody: a supervisor that comes back finds its leases by its name.
  if call('SCARD', RUN .. 'held:' .. other) > 0 then
    holding[#holding + 1] = other
  elseif not kept[other] then
    forget_worker(other)
  end
end
close()
return holding
