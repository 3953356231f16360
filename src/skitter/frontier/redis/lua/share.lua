-- share: each shard's part of max_pages, at the lead. The sum of what is given never exceeds it, and no shard has
-- more than it was given: more is written down here first and there after, less there first and here after.
--
--   job (written)
--
-- ARGV: time, run, the shard that needs more, pages that it needs in all, most that it may have, then for each shard that
-- takes less: its number, the number of its allotment, its pages.
-- Answers the number of the allotment and the pages of the shard that needs more.

if not load_job() then return false end
if J.run ~= tonumber(ARGV[2]) or not S.max_pages then return {0, 0} end
local needs, least, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
for shard = #J.given, J.shards - 1 do J.given[shard + 1] = {0, 0} end
for place = 6, #ARGV, 3 do
  local given = J.given[tonumber(ARGV[place]) + 1]
  -- Given again since it was asked: then it says nothing about what the shard has now.
  if given[1] == tonumber(ARGV[place + 1]) then given[2] = math.min(given[2], tonumber(ARGV[place + 2])) end
end
local left, mine = S.max_pages, J.given[needs + 1]
for _, given in ipairs(J.given) do left = left - given[2] end
if left < 0 then
  -- The limit was lowered since.
  mine[2] = math.max(0, mine[2] + left)
elseif mine[2] < least and left > 0 then
  -- Half of what is left at most, so that the other shards need not take it back at once; but what is needed.
  mine[2] = math.min(mine[2] + left, math.max(least, math.min(most, mine[2] + math.floor(left / 2))))
end
mine[1] = mine[1] + 1
save_job()
return mine
