-- read_items: items of a shard's outbox.
--
--   job (written), RUN:items (read)
--
-- ARGV: time, position of the first, how many. Answers those that there are, and the reigns of this shard.

if not load_job() then return false end
local first = tonumber(ARGV[2]) - J.first_item
if first < 0 then return {{}, list_reigns()} end
return {call('LRANGE', RUN .. 'items', first, first + tonumber(ARGV[3]) - 1), list_reigns()}
