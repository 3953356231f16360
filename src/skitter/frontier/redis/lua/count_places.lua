-- count_places: how many requests are in each place, for the sums of the consistency check; a piece of the hosts and of the
-- exact sets at a time.
--
--   job, hosts, RUN:returned:HOST, RUN:seen:N and the other exact sets, RUN:suspects, RUN:delayed, RUN:failed, RUN:requests, RUN:holds,
--   RUN:permits, RUN:needs, and what there is of them for a need (counted)
--
-- ARGV: time, where to go on among the hosts or nothing, first bucket of all exact sets, how many hosts and buckets, needs that
-- may have suspects.
-- Answers which state of the job this was, what the job's record says (queued, delayed, leased, done, redirected, failed,
-- excluded, parked, needy, paused hosts, hosts given up), what was counted (suspects, delayed, leased pages, failed, records, permits, items of the filter or
-- 0, and -1 where the seen set has what has ended), what was counted of this piece (queued, returned, pages, permitted hosts, parked hosts, paused hosts, hosts that an operator has given up), where to go on among the hosts
-- ("": through), and the next bucket (-1); of each exact set its name, the count of its record, and the ids in this piece; of each need
-- what was counted of it when it was queued, its suspects, and what is queued at the hosts of this piece.

if not load_job() then return false end
local stored, most, bucket = call('GET', KEYS[1]), tonumber(ARGV[4]), tonumber(ARGV[3])
local queued, returned, pages, permitted, parked, cursor, queued_for = 0, 0, 0, 0, 0, '', {}
local halted = {[0] = 0, 0, 0}
if ARGV[2] ~= '' then
  local scanned = call('HSCAN', BASE .. 'hosts', ARGV[2], 'COUNT', most)
  cursor = scanned[1] == '0' and '' or scanned[1]
  for place = 2, #scanned[2], 2 do
    local h = unpack_host(scanned[2][place])
    if h[RUN_OF] == J.run then
      for need, queue in pairs(queues_of(h)) do
        local listed = count_listed(queue)
        queued, queued_for[need] = queued + queue[QUEUED], (queued_for[need] or 0) + queue[QUEUED]
        if queue[QUEUED] > listed then returned = returned + queue[QUEUED] - listed end
      end
      pages = pages + h[PAGES]
      if h[TRUSTED] ~= 0 then permitted = permitted + 1 end
      if h[PHASE] == PARKED then parked = parked + 1 end
      halted[h[HALT]] = halted[h[HALT]] + 1
    end
  end
end
local sets, first, last = {}, 0, bucket + most
for place, set in ipairs(exact_sets()) do
  local prefix, record = set[1], set[2]
  local found = 0
  if bucket >= 0 then
    for number = math.max(0, bucket - first), math.min(record.buckets, last - first) - 1 do
      found = found + call('SCARD', prefix .. number)
    end
  end
  first = first + record.buckets
  sets[place] = {prefix, record.count, found}
end
if bucket >= 0 then bucket = last < first and last or -1 end
local leased = 0
for _, key in ipairs(call('HKEYS', RUN .. 'holds')) do
  if work_of(key) == PAGE then leased = leased + 1 end
end
local counted_for, suspects = {}, call('ZCARD', RUN .. 'suspects')
local hash = call('HGETALL', RUN .. 'needs')
for place = 1, #hash, 2 do counted_for[hash[place]] = tonumber(hash[place + 1]) end
for place = 5, #ARGV do counted_for[ARGV[place]] = counted_for[ARGV[place]] or 0 end
for need in pairs(queued_for) do
  if need ~= '' then counted_for[need] = counted_for[need] or 0 end
end
local of_needs = {}
for need, number in pairs(counted_for) do
  local alone = call('ZCARD', needs.suspects_of(need))
  suspects = suspects + alone
  of_needs[#of_needs + 1] = {need, number, alone, queued_for[need] or 0}
end
local ended, record = -1, seen.load()
if record then
  ended = 0
  for _, items in ipairs(S.layout and record.items or {}) do ended = ended + items end
end
return {
  redis.sha1hex(stored),
  {J.queued, J.delayed, J.leased, J.done, J.redirected, J.failed, J.excluded, J.parked or 0, J.needy or 0,
    J.paused_hosts or 0, J.given_up_hosts or 0},
  {
    suspects, call('ZCARD', RUN .. 'delayed'), leased, call('ZCARD', RUN .. 'failed'), call('HLEN', RUN .. 'requests'),
    call('LLEN', RUN .. 'permits'), ended,
  },
  {queued, returned, pages, permitted, parked, halted[HALT_PAUSED], halted[HALT_GIVEN_UP]}, cursor, bucket, sets, of_needs,
}
