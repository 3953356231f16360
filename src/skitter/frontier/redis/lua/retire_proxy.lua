-- retire_proxy: a proxy gets nothing more, or leaves the pool when nothing is in flight.
--
--   job, RUN:proxies (written)
--
-- ARGV: time, its id, its new state (ProxyState in model/proxy.py). Answers how many requests are in flight.

if not load_job() then return false end
local in_flight = proxies.retire(ARGV[2], tonumber(ARGV[3]))
close()
return in_flight
