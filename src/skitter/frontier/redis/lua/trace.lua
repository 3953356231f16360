-- trace: what the store knows of one request.
--
--   job, hosts, RUN:holds, RUN:requests, RUN:seen:N, RUN:kept:N, RUN:ended, delivered:N, RUN:q:P:HOST,
--   RUN:q_for:NEED:P:HOST (read)
--
-- A request that was never leased is found by looking through the queue of its host, a piece at each call and from the
-- end: what is added or leased meanwhile cannot push it out of sight.
--
-- ARGV: time, id, id in decimal, host key or nothing, list and number of requests of it already looked through, piece.
-- Answers {"none"}, {"delivered"} (by an earlier run), {"maybe"} (a Bloom filter takes it for known),
-- {"more", list, looked through}, {"seen"} (ended, or queued when no host key was given), or
-- {"row", now, worker, what is told of its host, sequence, host, priority, place, ...}.

if not load_job() then return false end
local id, key = ARGV[2], ARGV[4]

local function answer(row, worker)
  row[NOT_BEFORE], row[ENDED_AT], row[PRIORITY] = text(row[NOT_BEFORE]), text(row[ENDED_AT]), level(row[PRIORITY])
  return {'row', text(now), worker, tell_host(row[HOST]), unpack(row)}
end

local known = seen.find(ARGV[3], id, false)
if not known and S.skips_delivered and delivered.has(ARGV[3]) then known = 'delivered' end
if known ~= 'known' then return {known or 'none'} end
local stored = call('HGET', RUN .. 'holds', id)
if stored then
  local hold = unpack_hold(stored)
  return answer(row_of(hold), hold[WORKER])
end
stored = call('HGET', RUN .. 'requests', id)
if stored then return answer(unpack_row(stored, 1), '') end
if key == '' then return {'seen'} end

load_hosts({key})
local place, looked, piece = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
-- The lists of its queue, and of those of its needs: {need, priority} each.
local lists, names = {}, {''}
for need in pairs(hosts[key][NEEDS] or {}) do names[#names + 1] = need end
table.sort(names)
for _, need in ipairs(names) do
  local levels = needs.queue(hosts[key], need)[LEVELS] or {}
  for level_at = 1, #levels, 2 do lists[#lists + 1] = {need, levels[level_at]} end
end
while lists[place] do
  local need, priority = lists[place][1], lists[place][2]
  local elements = call('LRANGE', queue_of(key, priority, need), -looked - piece, -looked - 1)
  for _, element in ipairs(elements) do
    if string.sub(element, 6, 13) == id then
      local seq = struct.unpack('>I5', element)
      local row = {seq, key, priority, AT_QUEUED, 0, 0, 0, 0, 0, 0, '', '', 0, string.sub(element, 14), need}
      return answer(row, '')
    end
  end
  if #elements == piece then return {'more', place, looked + piece} end
  place, looked = place + 1, 0
end
return {'seen'}
