-- dead: dead requests in the order they were added.
--
--   job, RUN:dead, RUN:dead:CLASS, RUN:requests (read)
--
-- ARGV: time, class or nothing, limit, how many to skip. Answers id and the fields of its row, one array each.

if not load_job() then return false end
local name = ARGV[2] == '' and 'dead' or 'dead:' .. ARGV[2]
local after = tonumber(ARGV[4])
local ids, found = call('ZRANGE', RUN .. name, after, after + tonumber(ARGV[3]) - 1), {}
for place, row in ipairs(load_rows(ids)) do
  row[NOT_BEFORE], row[ENDED_AT], row[PRIORITY] = text(row[NOT_BEFORE]), text(row[ENDED_AT]), level(row[PRIORITY])
  found[place] = {ids[place], unpack(row)}
end
return found
