-- read_lead: what the other shards are to follow.
--
--   job (read, written), RUN:targets (read)
--
-- ARGV: time, the highest version that a shard has. A lead that lost its newest writes in a failover may be behind
-- that; it is still the one that decides. Answers a msgpack map for follow.lua.

if not load_job() then return false end
if J.version < tonumber(ARGV[2]) then
  J.version = tonumber(ARGV[2])
  changed()
  save_job()
end
return pack({
  version = J.version, run = J.run, state = J.state, shards = J.shards, settings = S, bucket_mean = J.seen.mean,
  secret = J.secret, permits = J.permits, complete = J.complete, targets = call('HKEYS', RUN .. 'targets'),
})
