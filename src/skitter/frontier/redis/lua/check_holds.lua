-- check_holds: compares some leases with their workers, their hosts and their requests.
--
--   job, hosts, RUN:holds, RUN:held:WORKER, RUN:alone, RUN:deadlines, RUN:requests, RUN:staged:EPOCH, RUN:seen:N (read)
--
-- ARGV: time, where to go on, how many. Answers where to go on, faults, and the number of leases.

if not load_job() then return false end

local function named(key)
  if key == SEED_KEY then return 'lease of the seeding' end
  return 'lease of ' .. (work_of(key) == PAGE and shown(key) or 'robots.txt, ' .. string.sub(key, 2))
end

local function check_worker(key, hold)
  local worker = hold[WORKER]
  local held = RUN .. 'held:' .. worker
  if call('SISMEMBER', held, key) == 0 then
    fault('lease_worker', worker, named(key) .. ' among its own', 'there', 'missing', 'mend_lease', 'index', key)
  end
  if hold[ALONE] and call('SISMEMBER', RUN .. 'alone', worker) == 0 then
    fault('lease_worker', worker, 'among those that hold a lease alone', 'there', 'missing', 'mend_lease', 'index', key)
  end
  if hold[ALONE] and call('SCARD', held) > 1 then
    fault('lease_alone', worker, 'leases beside one that is alone', 0, call('SCARD', held) - 1)
  end
  local looked_at = call('ZSCORE', RUN .. 'deadlines', worker)
  if not looked_at or tonumber(looked_at) > hold[DEADLINE] then
    local told = text(hold[DEADLINE]) .. ' at most'
    fault('lease_deadline', worker, 'when its leases are looked at', told, looked_at or 'never', 'mend_lease', 'index', key)
  end
end

local function check_page(key, hold)
  check_seen(key)
  local row = row_of(hold)
  check_seq(key, row[SEQ])
  if row[PLACE] ~= AT_LEASED or row[HOST] ~= hold[HOLD_HOST] then
    fault('lease_work', named(key), 'host and place of its request', hold[HOLD_HOST] .. ', ' .. AT_LEASED,
      row[HOST] .. ', ' .. row[PLACE], 'mend_lease', 'row', key)
  end
end

local scanned = call('HSCAN', RUN .. 'holds', ARGV[2], 'COUNT', ARGV[3])
local found = scanned[2]
for place = 1, #found, 2 do
  local key, hold = found[place], unpack_hold(found[place + 1])
  check_worker(key, hold)
  if hold[EPOCH] >= J.next_epoch then
    local least = hold[EPOCH] + stride()
    fault('sequence', named(key), 'next_epoch', 'more than ' .. whole(hold[EPOCH]), whole(J.next_epoch), 'mend_job', 'set', 'next_epoch', least)
  end
  if hold[STAGED] and call('EXISTS', RUN .. 'staged:' .. format('%d', hold[EPOCH])) == 0 then
    fault('staged', named(key), 'its staged items', 'some', 'none')
  end
  if key == SEED_KEY then
    if not J.seeding then
      fault('lease_work', named(key), 'the seeding', 'over, and without a lease', 'leased', 'mend_lease', 'drop', key)
    end
  else
    if work_of(key) == PAGE then check_page(key, hold) end
    local h = host_in_run(hold[HOLD_HOST])
    if not h then
      fault('host_missing', hold[HOLD_HOST], 'its record', 'one', 'none', 'mend_host', hold[HOLD_HOST])
    end
  end
end
return {scanned[1], faults, #found / 2}
