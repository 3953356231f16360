-- proxies: the pool of the job. Polled.
--
--   job, RUN:proxies, RUN:host_proxies (read)
--
-- ARGV: time. Answers now, records of proxies, and {host, record, ...} of what is remembered at hosts.

if not load_job() then return false end
return {
  text(now), call('HVALS', RUN .. 'proxies'), J.proxy_hosts and call('HGETALL', RUN .. 'host_proxies') or {},
}
