-- known_pages: known pages of a job that recrawls, in the order of the times when they are due.
--
--   job, due, pages (read)
--
-- ARGV: time, the times after and until which they are due, how many. Those that are due with the last come with it.
-- Answers for each: time, id, host key, payload.

if not load_job() then return false end
local limit, key = tonumber(ARGV[4]), BASE .. 'due'
local first = call('ZRANGEBYSCORE', key, '(' .. ARGV[2], ARGV[3], 'WITHSCORES', 'LIMIT', 0, limit)
local found = call('ZRANGEBYSCORE', key, '(' .. ARGV[2], #first == 2 * limit and first[#first] or ARGV[3], 'WITHSCORES')
local ids, answer = {}, {}
for place = 1, #found, 2 do ids[#ids + 1] = found[place] end
for place, stored in ipairs(fetch(BASE .. 'pages', ids)) do
  local page = unpacked(stored)
  answer[#answer + 1] = found[2 * place]
  answer[#answer + 1] = ids[place]
  answer[#answer + 1] = page[1]
  answer[#answer + 1] = page[2]
end
return answer
