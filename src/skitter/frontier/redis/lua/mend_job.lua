-- mend_job: sets a count or a sequence of the job to what it has to be.
--
--   job, RUN:errors, RUN:addresses, RUN:proxies, RUN:items, RUN:permits, RUN:needs, RUN:ended, RUN:jar_order, RUN:jar_domains (written), RUN:jars (read), hosts (read)
--
-- ARGV: time, step, then for
--   "set"      field of the record, number: a sequence only grows
--   "error"    class of errors: its count
--   "load"     IP address, leases
--   "proxy"    its id, leases
--   "crowded"  host key: the length of its queue
--   "permits"  where to go on among the hosts: those that are permitted and not listed join the list
--   "need"     need, queued requests
--   "session"  session, requests in flight
--   "ids"      what the keys of an exact set begin with, ids
--   "bits"     sub-filter, bits that are set
--   "items", "state", "jars": nothing more
-- Answers 1; for "permits" where to go on.

if not load_job() then return false end
local step, name = ARGV[2], ARGV[3]
local grows = {next_seq = true, next_epoch = true}
local may_be_missing = {needy = true, parked = true, proxy_hosts = true, paused_hosts = true, given_up_hosts = true}

local function count_failed(class)
  local failed = call('ZCARD', RUN .. 'failed:' .. class)
  if failed == 0 then
    call('HDEL', RUN .. 'errors', class)
  else
    call('HSET', RUN .. 'errors', class, failed)
  end
end

local steps = {
  set = function()
    local value = tonumber(ARGV[4])
    J[name] = grows[name] and math.max(J[name], value) or value
    if may_be_missing[name] and value == 0 then J[name] = nil end
  end,
  error = function() count_failed(name) end,
  jars = function() jars.index() end,
  session = function() sessions.set_in_flight(name, tonumber(ARGV[4])) end,
  load = function()
    if tonumber(ARGV[4]) == 0 then
      call('HDEL', RUN .. 'addresses', name)
    else
      call('HSET', RUN .. 'addresses', name, ARGV[4])
    end
  end,
  proxy = function()
    local p = proxies.change(name)
    if p then p[P_IN_FLIGHT] = tonumber(ARGV[4]) end
    proxies.save()
  end,
  crowded = function()
    local h = host_in_run(name)
    local queued = h and needs.queued(h) or 0
    J.crowded[name] = queued > 0 and queued or nil
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
  need = function()
    if tonumber(ARGV[4]) == 0 then
      call('HDEL', RUN .. 'needs', name)
    else
      call('HSET', RUN .. 'needs', name, ARGV[4])
    end
  end,
  ids = function()
    for _, set in ipairs(exact_sets()) do
      if set[1] == name then set[2].count = tonumber(ARGV[4]) end
    end
    seen.changed = seen.ended ~= false
    seen.save()
  end,
  bits = function()
    seen.load().ones[tonumber(name)] = tonumber(ARGV[4])
    seen.changed = true
    seen.save()
  end,
  state = function()
    if is_idle() then settle() else reopen() end
  end,
}
local told = steps[step]()
save_job()
return told or 1
