-- count_places: how many requests are in each place, for the sums of the consistency check; a piece of the hosts and of the
-- seen set at a time.
--
--   job, hosts, RUN:returned:HOST, RUN:seen:N, RUN:suspects, RUN:delayed, RUN:dead, RUN:requests, RUN:holds, RUN:permits
--   (counted)
--
-- ARGV: time, where to go on among the hosts or nothing, first bucket of the seen set, how many hosts and buckets.
-- Answers which state of the job this was, what the job's record says (queued, delayed, leased, done, redirected, dead,
-- excluded), what was counted (suspects, delayed, leased pages, dead, records, permits), what was counted of this piece
-- (queued, returned, pages, permitted hosts, seen), where to go on among the hosts ("": through), and the next bucket (-1).

if not load_job() then return false end
local stored, most, bucket = call('GET', KEYS[1]), tonumber(ARGV[4]), tonumber(ARGV[3])
local queued, returned, pages, permitted, seen, cursor = 0, 0, 0, 0, 0, ''
if ARGV[2] ~= '' then
  local scanned = call('HSCAN', BASE .. 'hosts', ARGV[2], 'COUNT', most)
  cursor = scanned[1] == '0' and '' or scanned[1]
  for place = 2, #scanned[2], 2 do
    local h = unpack_host(scanned[2][place])
    if h[RUN_OF] == J.run then
      queued, pages = queued + h[QUEUED], pages + h[PAGES]
      if h[QUEUED] > count_listed(h) then returned = returned + h[QUEUED] - count_listed(h) end
      if h[TRUSTED] ~= 0 then permitted = permitted + 1 end
    end
  end
end
if bucket >= 0 then
  local last = math.min(bucket + most, J.buckets)
  for number = bucket, last - 1 do seen = seen + call('SCARD', seen_key(number)) end
  bucket = last < J.buckets and last or -1
end
local leased = 0
for _, key in ipairs(call('HKEYS', RUN .. 'holds')) do
  if work_of(key) == PAGE then leased = leased + 1 end
end
return {
  redis.sha1hex(stored), {J.queued, J.delayed, J.leased, J.done, J.redirected, J.dead, J.excluded},
  {
    call('ZCARD', RUN .. 'suspects'), call('ZCARD', RUN .. 'delayed'), leased, call('ZCARD', RUN .. 'dead'),
    call('HLEN', RUN .. 'requests'), call('LLEN', RUN .. 'permits'),
  },
  {queued, returned, pages, permitted, seen}, cursor, bucket,
}
