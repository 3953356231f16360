-- set_permitted_count: a shard is told how many host keys are permitted in the job.
--
--   job (written)
--
-- ARGV: time, run, how many.

if not load_job() then return false end
if J.run == tonumber(ARGV[2]) then
  J.permits = math.max(J.permits, tonumber(ARGV[3]))
  save_job()
end
return 1
