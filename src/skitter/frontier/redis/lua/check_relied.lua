-- check_relied: how many links that other shards had added here are not here any more, although the pages that have them
-- ended: a server was promoted that lacked them.
--
--   job (read)
--
-- ARGV: time, then for each thing that was noted of this shard (rely_on in 6_shards.lua) its reigns and its number of links.

if not load_job() then return false end
local lost = 0
for place = 2, #ARGV, 2 do
  lost = math.max(lost, tonumber(ARGV[place + 1]) - kept_since(ARGV[place], R_FOREIGN, J.foreign))
end
return lost
