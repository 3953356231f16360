-- sinks: the targets that items are kept for. Polled.
--
--   job, RUN:sinks (read)
--
-- ARGV: time. Answers now, position of the newest item, items that a target may lack, sinks {target, record, ...}.

if not load_job() then return false end
return {text(now), J.position, S.max_outbox_items, call('HGETALL', RUN .. 'sinks')}
