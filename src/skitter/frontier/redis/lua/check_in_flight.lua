-- check_in_flight: compares all leases with what hosts and addresses count of them, and with what is staged.
--
--   job, hosts, RUN:holds, RUN:addresses, RUN:proxies, RUN:host_proxies, RUN:staged:EPOCH (read)
--
-- ARGV: time, most leases to look at, number of hosts, keys of hosts that had something in flight, epochs under which
-- something was staged. Answers the number of leases and faults; nothing is compared when there are more leases.

if not load_job() then return false end
local most, hosts_given = tonumber(ARGV[2]), tonumber(ARGV[3])
local total = call('HLEN', RUN .. 'holds')
if total > most then return {total, faults} end

local in_flight, loads, epochs, staged, through = {}, {}, {}, {}, {}
local stored = call('HGETALL', RUN .. 'holds')
for place = 1, #stored, 2 do
  local key, hold = stored[place], unpack_hold(stored[place + 1])
  local epoch, host = hold[EPOCH], hold[HOLD_HOST]
  if epochs[epoch] then
    fault('lease_epoch', 'epoch ' .. whole(epoch), 'leases with this epoch', 1, 2, 'mend_lease', 'renumber', key)
  end
  epochs[epoch] = key
  staged[epoch] = hold[STAGED]
  if key ~= SEED_KEY then in_flight[host] = (in_flight[host] or 0) + 1 end
  if hold[COUNTED] ~= '' then loads[hold[COUNTED]] = (loads[hold[COUNTED]] or 0) + 1 end
  if hold[HOLD_PROXY] ~= '' then through[hold[HOLD_PROXY]] = (through[hold[HOLD_PROXY]] or 0) + 1 end
end

for place = 4, 3 + hosts_given do in_flight[ARGV[place]] = in_flight[ARGV[place]] or 0 end
for key, number in pairs(in_flight) do
  local h = host_in_run(key)
  if h and h[IN_FLIGHT] ~= number then
    fault('host_in_flight', key, 'requests in flight', number, h[IN_FLIGHT], 'mend_host', key)
  end
end
local counted = call('HGETALL', RUN .. 'addresses')
for place = 1, #counted, 2 do
  local address, load = counted[place], tonumber(counted[place + 1])
  if load ~= (loads[address] or 0) then
    fault('address_count', address, 'leases in flight', loads[address] or 0, load, 'mend_job', 'load', address, loads[address] or 0)
  end
  loads[address] = nil
end
for address, load in pairs(loads) do
  fault('address_count', address, 'leases in flight', load, 0, 'mend_job', 'load', address, load)
end
if J.pooled then
  for id, p in pairs(proxies.load()) do
    local load = through[id] or 0
    if p[P_IN_FLIGHT] ~= load then
      fault('proxy_count', id, 'leases in flight', load, p[P_IN_FLIGHT], 'mend_job', 'proxy', id, load)
    end
  end
  local known = call('HLEN', RUN .. 'host_proxies')
  if known ~= (J.proxy_hosts or 0) then
    fault('proxy_count', 'job', 'hosts that remember proxies', known, J.proxy_hosts or 0, 'mend_job', 'set', 'proxy_hosts', known)
  end
end
for place = 4 + hosts_given, #ARGV do
  local epoch = tonumber(ARGV[place])
  local list = RUN .. 'staged:' .. ARGV[place]
  if not epochs[epoch] and call('EXISTS', list) == 1 then
    fault('staged', 'epoch ' .. ARGV[place], 'the lease of staged items', 'current', 'none', 'mend_lease', 'unstage', ARGV[place])
  elseif epochs[epoch] and not staged[epoch] and call('EXISTS', list) == 1 then
    fault('staged', 'epoch ' .. ARGV[place], 'the mark of a lease that has staged', 'set', 'not set',
      'mend_lease', 'mark', epochs[epoch])
  end
end
return {total, faults}
