-- workers: those that were heard from, and what each holds. Polled.
--
--   job, workers, heartbeats, RUN:held:WORKER (read)
--
-- ARGV: time. Answers now, workers {id, heard at, leased, heartbeat, ...}.

if not load_job() then return false end
return {text(now), list_workers()}
