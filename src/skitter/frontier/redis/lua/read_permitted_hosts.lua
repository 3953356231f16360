-- read_permitted_hosts: the permitted host keys, at the lead, without those that the client knows.
--
--   job, RUN:permits (read)
--
-- ARGV: time, run and number of those that the client knows. Answers the run and the rest.

if not load_job() then return false end
local known = tonumber(ARGV[2]) == J.run and tonumber(ARGV[3]) or 0
return {J.run, call('LRANGE', RUN .. 'permits', known, -1)}
