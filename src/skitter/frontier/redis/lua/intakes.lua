-- intakes: the sources that requests come from. Polled.
--
--   job, RUN:intakes (read)
--
-- ARGV: time. Answers now, intakes {source, record, ...}.

if not load_job() then return false end
return {text(now), J.intakes and call('HGETALL', RUN .. 'intakes') or {}}
