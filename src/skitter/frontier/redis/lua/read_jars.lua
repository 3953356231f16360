-- read_jars: jars of cookies as they are stored.
--
--   job, RUN:jars (read)
--
-- ARGV: time, then SESSION DOMAIN of each. Answers each, or false for one that is not there.

if not load_job() then return false end
local names = {}
for place = 2, #ARGV do names[#names + 1] = ARGV[place] end
return fetch(RUN .. 'jars', names)
