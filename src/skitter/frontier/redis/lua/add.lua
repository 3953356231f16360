-- add: dedup and enqueue in one step (promise 3).
--
--   job, hosts, RUN:seen:N, RUN:kept:N, RUN:ended, RUN:q:P:HOST, RUN:permits, RUN:ready:P, RUN:tops, RUN:waiting (written)
--
-- ARGV: time, then for each entry: id in decimal, host key, priority (before it may stand a mark, 3_requests.lua),
-- id and payload.
-- Answers how many were new.

if not load_job() then return false end
local places = {}
for place = 2, #ARGV, ENTRY do places[#places + 1] = place end
local new = add(places)
if new > 0 then reopen() end
close()
return new
