-- items: the next items that a target lacks, in order; keeps the ownership.
--
--   job, RUN:sinks (written), RUN:items (read)
--
-- ARGV: time, target, owner, seconds that an ownership lasts, limit.
-- Answers the position of the first, the items, and the server's reign; an empty answer when the ownership was lost.

if not load_job() then return false end
local stored = call('HGET', RUN .. 'sinks', ARGV[2])
local sink = stored and unpacked(stored)
if not sink or sink[OWNER] ~= ARGV[3] then return {} end
sink[OWNED_UNTIL] = now + tonumber(ARGV[4])
call('HSET', RUN .. 'sinks', ARGV[2], pack(sink))
close()
-- What was dropped is always a beginning.
local first = math.max(sink[POSITION] + 1, J.first_item)
local last = sink[POSITION] + tonumber(ARGV[5])
local found = {}
if last >= first then found = call('LRANGE', RUN .. 'items', first - J.first_item, last - J.first_item) end
return {first, found, reign()}
