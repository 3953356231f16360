-- list_sessions: sessions and jars, for people.
--
--   job, RUN:jars, RUN:sessions (read)
--
-- ARGV: time. Answers {SESSION DOMAIN, jar, ...} and {session, record, ...}.

if not load_job() then return false end
return {call('HGETALL', RUN .. 'jars'), call('HGETALL', RUN .. 'sessions')}
