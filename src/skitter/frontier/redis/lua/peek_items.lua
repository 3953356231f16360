-- peek_items: items that the outbox holds, for people. Nobody's progress moves.
--
--   job, RUN:items (read)
--
-- ARGV: time, position after which they begin, limit. Answers the position of the first, and the items.

if not load_job() then return false end
local skipped = math.max(tonumber(ARGV[2]) + 1 - J.first_item, 0)
local found = call('LRANGE', RUN .. 'items', skipped, skipped + tonumber(ARGV[3]) - 1)
return {J.first_item + skipped, found}
