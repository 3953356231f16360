-- revive: failed requests are queued again with a clean slate: all, one class, or the ones named.
--
--   job, hosts, RUN:requests, RUN:failed, RUN:failed:CLASS, RUN:errors, RUN:returned:HOST, RUN:reasons (written)
--
-- ARGV: time, class or nothing, limit, ids... Answers how many; the client asks again while it is the limit. A shard that
-- is sealed answers -1 if there are any.

if not load_job() then return false end
local class, ids = ARGV[2], {}
if #ARGV > 3 then
  for place = 4, #ARGV do ids[#ids + 1] = ARGV[place] end
else
  ids = call('ZRANGE', RUN .. (class == '' and 'failed' or 'failed:' .. class), 0, tonumber(ARGV[3]) - 1)
end
local revived, done = 0, {}
for place, row in ipairs(load_rows(ids)) do
  local id = ids[place]
  if row and row[PLACE] == AT_FAILED and not done[id] and (class == '' or class == row[ERROR_CLASS]) then
    -- Nothing is written yet: the client opens the job again first.
    if is_sealed() then return -1 end
    done[id] = true
    revived = revived + 1
    call('ZREM', RUN .. 'failed', id)
    call('ZREM', RUN .. 'failed:' .. row[ERROR_CLASS], id)
    count_error(row[ERROR_CLASS], -1)
    row[ATTEMPTS], row[LOSSES], row[LOSSES_ALONE], row[ROW_BLOCKS], row[STATUS] = 0, 0, 0, 0, 0
    row[ENDED_AT], row[NOT_BEFORE], row[ERROR_CLASS], row[ERROR], row[PROXY_FAILURES] = 0, 0, '', '', nil
    -- A new chance for the host too. A pause that it asked for still holds.
    local h = host_of(row[HOST])
    h[STRIKES], h[BLOCKS], h[BACKOFF], h[GATE_LOSSES] = 0, 0, 0, 0
    if h[HALT] == HALT_GIVEN_UP then budgets.halt(h, 0) end
    forgive(row[HOST], h)
    requeue(id, row)
  end
end
if revived > 0 then reopen() end
close()
return revived
