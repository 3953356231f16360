-- forget_workers: workers that one shard would forget (record_worker.lua), in all shards of a job.
--
--   job, workers, heartbeats, RUN:answers (written), RUN:held:WORKER (counted)
--
-- ARGV: time, "ask" or "forget", seconds of silence, workers...
-- "ask" answers those who have been silent here too, and hold nothing; "forget" forgets them.

if not load_job() then return false end
local asked_only, seconds, silent = ARGV[2] == 'ask', tonumber(ARGV[3]), {}
for place = 4, #ARGV do
  local heard_at = call('ZSCORE', BASE .. 'workers', ARGV[place])
  if (not heard_at or tonumber(heard_at) <= now - seconds) and call('SCARD', RUN .. 'held:' .. ARGV[place]) == 0 then
    silent[#silent + 1] = ARGV[place]
    if not asked_only then forget_worker(ARGV[place]) end
  end
end
close()
return silent
