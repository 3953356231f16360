-- log_in: begin the login of a session that a worker was asked for.
--
--   job, RUN:sessions, and what add.lua writes
--
-- ARGV: time, session, generation, whether it has failed, then the entries as in add.lua. Answers 1, or 0 if another worker has
-- begun it.

if not load_job() then return false end
local places = {}
for place = 5, #ARGV, ENTRY do places[#places + 1] = place end
if not S.sessions or not sessions.log_in(ARGV[2], tonumber(ARGV[3]), #places, ARGV[4] == '1') then return 0 end
if #places > 0 then add(places) end
close()
return 1
