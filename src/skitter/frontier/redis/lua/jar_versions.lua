-- jar_versions: the newest version of the jars of hosts, at the lead.
--
--   job, RUN:jar_domains (read)
--
-- ARGV: time, then host keys. Answers a version each; 0: there is no jar.

if not load_job() then return false end
local answer = {}
for place = 2, #ARGV do answer[place - 1] = J.jars and jars.version_of(ARGV[place]) or 0 end
return answer
