-- all_shards_joined: every shard has heard of this run. From now on a shard without a record is one that has lost it.
--
--   job (written)
--
-- ARGV: time, run.

if not load_job() then return false end
if J.run == tonumber(ARGV[2]) and not J.complete then
  J.complete = true
  save_job()
end
return 1
