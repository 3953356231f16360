-- add_links: dedup and enqueue in one step (promise 3), in a shard: what another shard's page has found, or what was added.
--
--   job, hosts, RUN:seen:N, RUN:kept:N, RUN:ended, RUN:q:P:HOST, RUN:ready:P, RUN:tops, RUN:waiting (written)
--
-- ARGV: time, run, permits of the job, then the entries as in add.lua.
-- Answers a text of 1 and 0: which were new. Nothing is done, and the answer is "behind" when the shard is in an
-- older run, "over" when it is in a newer one, "sealed" when it is sealed and some are new.

if not load_job() then return false end
local run, places = tonumber(ARGV[2]), {}
if J.run < run or J.dirty then return 'behind' end
if J.run > run then return 'over' end
for place = 4, #ARGV, ENTRY do places[#places + 1] = place end
if is_sealed() then
  for _, place in ipairs(places) do
    local mark = seen.marks[string.byte(ARGV[place + 2])]
    local is_known = seen.find(ARGV[place], ARGV[place + 3], mark and mark.exactly)
    if not is_known and not (S.skips_delivered and delivered.skips(place)) then return 'sealed' end
  end
end
local answer, is_new = {}, {}
local _, fresh = add(places)
for _, place in ipairs(fresh) do is_new[place] = true end
J.foreign = J.foreign + #fresh
for number, place in ipairs(places) do answer[number] = is_new[place] and '1' or '0' end
J.permits = math.max(J.permits, tonumber(ARGV[3]))
close()
return table.concat(answer)
