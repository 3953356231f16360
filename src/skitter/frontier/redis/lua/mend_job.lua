-- mend_job: sets a count or a sequence of the job to what it has to be.
--
--   job, RUN:errors, RUN:addresses, RUN:items, RUN:permits (written), hosts (read)
--
-- ARGV: time, step, then for
--   "set"      field of the record, number: a sequence only grows
--   "error"    class of errors: its count
--   "load"     IP address, leases
--   "crowded"  host key: the length of its queue
--   "permits"  where to go on among the hosts: those that are permitted and not listed join the list
--   "items", "parked", "state": nothing more
-- Answers 1; for "permits" where to go on.

if not load_job() then return false end
local step, name = ARGV[2], ARGV[3]
local grows = {next_seq = true, next_epoch = true}

local function count_dead(class)
  local dead = call('ZCARD', RUN .. 'dead:' .. class)
  if dead == 0 then
    call('HDEL', RUN .. 'errors', class)
  else
    call('HSET', RUN .. 'errors', class, dead)
  end
end

local steps = {
  set = function()
    local value = tonumber(ARGV[4])
    J[name] = grows[name] and math.max(J[name], value) or value
  end,
  error = function() count_dead(name) end,
  load = function()
    if tonumber(ARGV[4]) == 0 then
      call('HDEL', RUN .. 'addresses', name)
    else
      call('HSET', RUN .. 'addresses', name, ARGV[4])
    end
  end,
  crowded = function()
    local h = host_in_run(name)
    J.crowded[name] = h and h[QUEUED] > 0 and h[QUEUED] or nil
  end,
  permits = function()
    local scanned = call('HSCAN', BASE .. 'hosts', name, 'COUNT', 100)
    for place = 1, #scanned[2], 2 do
      local key, h = scanned[2][place], unpack_host(scanned[2][place + 1])
      if h[RUN_OF] == J.run and h[TRUSTED] ~= 0 and not call('LPOS', RUN .. 'permits', key) then
        call('RPUSH', RUN .. 'permits', key)
      end
    end
    return scanned[1]
  end,
  items = drop_items,
  parked = function()
    local parked = call('ZCARD', RUN .. 'parked')
    J.parked = parked > 0 and parked or nil
  end,
  state = function()
    if is_idle() then settle() else reopen() end
  end,
}
local told = steps[step]()
save_job()
return told or 1
