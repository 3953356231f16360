-- read_items: items of a shard's outbox.
--
--   job, RUN:items (read)
--
-- ARGV: time, position of the first, how many.

if not load_job() then return false end
local first = tonumber(ARGV[2]) - J.first_item
return call('LRANGE', RUN .. 'items', first, first + tonumber(ARGV[3]) - 1)
