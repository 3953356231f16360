-- stop_if_over: the job stops: all shards are drained, or all together have done what they may.
--
--   job (written), RUN:holds (counted)
--
-- ARGV: time, version that all shards had, pages done. Answers 1 if it stopped.

if not load_job() then return false end
if J.version ~= tonumber(ARGV[2]) then return 0 end
if J.state == 'draining' and call('HLEN', RUN .. 'holds') == 0 then
  J.state, J.ended_at = 'stopped', now
elseif J.state == 'running' and S.max_pages and tonumber(ARGV[3]) >= S.max_pages then
  J.state, J.ended_at, J.reason = 'stopped', now, 'max_pages'
else
  return 0
end
changed()
save_job()
return 1
