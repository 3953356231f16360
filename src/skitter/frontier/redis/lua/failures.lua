-- failed: failed requests in the order they were added, or the newest first.
--
--   job, RUN:failed, RUN:failed:CLASS, RUN:requests (read)
--
-- ARGV: time, class or nothing, limit, sequence to go on from (empty: the beginning), 1: the newest first. Answers id and the fields of
-- its row, one array each.

if not load_job() then return false end
local name = ARGV[2] == '' and 'failed' or 'failed:' .. ARGV[2]
local from = ARGV[4] ~= '' and '(' .. ARGV[4]
local ids, found = nil, {}
if ARGV[5] == '1' then
  ids = call('ZREVRANGEBYSCORE', RUN .. name, from or '+inf', '-inf', 'LIMIT', 0, ARGV[3])
else
  ids = call('ZRANGEBYSCORE', RUN .. name, from or '-inf', '+inf', 'LIMIT', 0, ARGV[3])
end
for place, row in ipairs(load_rows(ids)) do
  row[NOT_BEFORE], row[ENDED_AT], row[PRIORITY] = text(row[NOT_BEFORE]), text(row[ENDED_AT]), level(row[PRIORITY])
  found[place] = {ids[place], unpack(row)}
end
return found
