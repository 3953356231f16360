-- commit: ack, links, items and host news in one step, from the current epoch only (promise 2).
--
--   everything of the other files; RUN:items, RUN:staged:EPOCH, robots (written), RUN:sinks (counted)
--
-- ARGV: time, worker, want, run and number of the permits that the client knows, token of the call, slots of the worker,
-- its needs, its round trip, in a shard
-- what its pages rely on (rely_on in 6_shards.lua) or nothing, heads, and then for each outcome its lease key, its robots record and the record of its page if it brings
-- them, its items (each after a byte for its kind), its links as in add.lua.
-- Heads: msgpack, for each outcome {epoch, ending, items, links, status, tally {name, amount, ...} or nil, news or nil,
-- touched, more, error class, error, retry seconds, after or nil, when the page is due next or nil, attempts of this request or 0 for those of the
-- settings, what was seen of its proxy {fault, latency or nil, bytes} or nil, cookies or nil: {session, domain, version that is
-- known, list of cookies}, whether its session has expired}; for an outcome that is nothing special they end with the news.
-- News: {what the host did, latency, address, retry after, crawl delay}; what it did is a sum of 1 for answered,
-- 2 for unreachable, 4 for blocked, 8 for a robots record, 16 for one with text, 256 for a page that is a sign of a trap, 512 for
-- one that is none.
-- Answers a text of 1 and 0, a grant when some were wanted, the number of new links, and for each strike against a host
-- {its key, class of the error, strikes, pause, given up, rule, pages}; the last two for one whose budget is spent. Then of each
-- accepted outcome with cookies the version of its jar, or 0 (9_jars.lua); and the reign.

if not load_job() then return false end
asked, share.slots = ARGV[2], tonumber(ARGV[7])
if ARGV[8] ~= '' then needs.serve(ARGV[8]) end
pace.round_trip_seconds = tonumber(ARGV[9])

local worker, want, token = ARGV[2], tonumber(ARGV[3]), ARGV[6]
local permits_run, permits_known = tonumber(ARGV[4]), tonumber(ARGV[5])
local earlier = answers.recall(worker, token, true)
if earlier then
  local grant = want > 0 and lease_again(worker, earlier, permits_run, permits_known)
  close()
  -- What was new or struck was told with the answer that got lost.
  return {earlier.accepted, grant, 0, {}, {}, reign()}
end

if ARGV[10] ~= '' then rely_on(unpacked(ARGV[10])) end
local heads, at = unpacked(ARGV[11]), 12
local H_EPOCH, H_ENDING, H_ITEMS, H_LINKS, H_STATUS, H_TALLY, H_NEWS = 1, 2, 3, 4, 5, 6, 7
local H_TOUCHED, H_MORE, H_CLASS, H_ERROR, H_RETRY, H_AFTER, H_NEXT_AT, H_ATTEMPTS = 8, 9, 10, 11, 12, 13, 14, 15
local H_PROXY, H_COOKIES, H_EXPIRED = 16, 17, 18
local N_DID, N_LATENCY, N_ADDRESS, N_RETRY_AFTER, N_CRAWL_DELAY = 1, 2, 3, 4, 5
local ANSWERED, UNREACHABLE, BLOCKED, WITH_ROBOTS, WITH_TEXT = 1, 2, 4, 8, 16
local SIGN, NO_SIGN = 256, 512
local SPECIAL = 12
local keep_items = call('HLEN', RUN .. 'sinks') > 0
local outbox, troubles, jar_versions = {}, {}, {}

local function did(news, what)
  return news ~= nil and bit.band(news[N_DID], what) ~= 0
end

-- An outcome that is nothing special.
for _, head in ipairs(heads) do
  if not head[SPECIAL] then
    head[H_TOUCHED], head[H_MORE], head[H_CLASS], head[H_ERROR], head[H_RETRY] = true, false, '', '', 0
  end
end

local function learn_robots(key, h, epoch, news, record)
  h[CRAWL_DELAY] = news[N_CRAWL_DELAY]
  h[ROBOTS_UNTIL] = now + S.robots_seconds
  h[GATE_LOSSES] = 0
  local has_text = did(news, WITH_TEXT)
  -- An empty one is written only over an older one: most hosts have none.
  if has_text or h[ROBOTS_VERSION] ~= 0 then call('HSET', BASE .. 'robots', key, record) end
  h[ROBOTS_VERSION] = has_text and epoch or 0
  -- The gate itself was a request to the host: its first page waits for the delay just learnt.
  local delay = delay_of(h)
  if delay > 0 then h[DUE] = math.max(h[DUE], now + delay) end
end

-- Take in the host news; true if it was a strike.
local function hear(key, h, hold, head, record)
  local news = head[H_NEWS]
  if not news then return false end
  notable[key] = true
  if news[N_ADDRESS] ~= '' and news[N_ADDRESS] ~= h[ADDRESS] then
    addresses.note_room(h[ADDRESS])
    h[ADDRESS] = news[N_ADDRESS]
  end
  if did(news, WITH_ROBOTS) then learn_robots(key, h, hold[EPOCH], news, record) end
  if did(news, SIGN + NO_SIGN) then budgets.judge(h, did(news, SIGN)) end
  if did(news, ANSWERED) then politeness.answered(key, h, hold[LEASED_AT], news[N_LATENCY], head[H_STATUS]) end
  if did(news, BLOCKED) then
    h[HOST_ERROR] = head[H_CLASS]
    return politeness.blocked(h, hold[LEASED_AT], news[N_RETRY_AFTER])
  end
  if did(news, UNREACHABLE) then
    -- held() has said it of a page that held its worker, unless the host has asked for a pause since.
    if head[H_CLASS] ~= HELD_CLASS then h[HOST_ERROR] = head[H_CLASS] end
    return politeness.unreachable(h, hold[LEASED_AT])
  end
  return false
end

-- Not by a robots.txt that cannot be read while the last good copy of it governs.
local function is_given_up(h, gate)
  return not (gate and h[ROBOTS_UNTIL] > now) and politeness.is_down(h)
end

-- Where the request goes from here.
local function end_page(id, hold, h, head, struck)
  local ending = head[H_ENDING]
  if ending == 'unchanged' then ending = 'done' end
  if ending == 'done' or ending == 'redirected' then
    -- Nothing is kept of it but that it was seen.
    J.leased = J.leased - 1
    J[ending] = J[ending] + 1
    seen.close(id)
    if ending == 'done' then h[PAGES] = h[PAGES] + 1 end
    return
  end
  local row = row_of(hold)
  row[STATUS], row[ERROR_CLASS], row[ERROR] = head[H_STATUS], head[H_CLASS], head[H_ERROR]
  if ending ~= 'retry' then
    if head[H_TOUCHED] then row[ATTEMPTS] = row[ATTEMPTS] + 1 end
    if ending == 'failed' then
      bury(id, row)
    else
      row[ENDED_AT] = now
      move(row, AT_EXCLUDED)
      save_row(id, row)
    end
    return
  end
  local news = head[H_NEWS]
  local of_the_host = did(news, BLOCKED + UNREACHABLE)
  if did(news, BLOCKED) then
    if struck then row[ROW_BLOCKS] = row[ROW_BLOCKS] + 1 end
  elseif struck or not of_the_host then
    row[ATTEMPTS] = row[ATTEMPTS] + 1
  end
  local max_attempts = (head[H_ATTEMPTS] or 0) > 0 and head[H_ATTEMPTS] or S.max_attempts
  local hopeless = row[ROW_BLOCKS] >= BLOCK_LIMIT or row[ATTEMPTS] >= max_attempts
  if hopeless or (of_the_host and politeness.is_down(h)) then
    bury(id, row)
  elseif of_the_host then
    requeue(id, row)
  else
    -- A run that was begun by an older skitter has no such setting.
    if (S.retry_priority or 0) ~= 0 then
      row[PRIORITY] = math.max(-MAX_PRIORITY, math.min(row[PRIORITY] + S.retry_priority, MAX_PRIORITY))
    end
    delay_row(id, row, head[H_RETRY])
  end
end

-- It is tried again with another proxy, and no attempt is spent; but not for ever.
local function fail_by_proxy(id, hold, head)
  local row = row_of(hold)
  local failures = (row[PROXY_FAILURES] or 0) + 1
  row[STATUS], row[ERROR_CLASS], row[ERROR] = head[H_STATUS], head[H_CLASS], head[H_ERROR]
  row[PROXY_FAILURES] = failures
  if failures >= PROXY_FAILURES_LIMIT then
    die(id, row, 'proxy', format('failed by its proxy %d times, the last time: ', failures) .. row[ERROR])
  else
    requeue(id, row)
  end
end

-- ``item`` begins with its kind. One of a kind that does not exist is damage, which whoever reads it tells.
local function publish_item(id, place, item)
  bump(counters[string.byte(item)] or RECORD_COUNTER, 1)
  if keep_items then outbox[#outbox + 1] = id .. struct.pack('>I4', place) .. item end
end

local function publish(lease_key, hold, head, first)
  local id = work_of(lease_key) == PAGE and lease_key or string.rep('\0', 8)
  local staged, shown = 0, head[H_ENDING] == 'done'
  if hold[STAGED] and shown then
    -- A page that fails in its last part takes the items of the earlier ones with it.
    for place, item in ipairs(call('LRANGE', RUN .. 'staged:' .. format('%d', hold[EPOCH]), 0, -1)) do
      publish_item(id, place - 1, item)
      staged = place
    end
  end
  for place = 0, head[H_ITEMS] - 1 do publish_item(id, staged + place, ARGV[first + place]) end
end

local places = {}
for place, head in ipairs(heads) do
  places[place] = at
  local news = head[H_NEWS]
  at = at + 1 + (did(news, WITH_ROBOTS) and 1 or 0) + (head[H_NEXT_AT] and 1 or 0) + head[H_ITEMS] + head[H_LINKS] * ENTRY
end
local keys, of_hosts = {}, {}
for place, first in ipairs(places) do keys[place] = ARGV[first] end
local holds, over, accepted, links, downed = load_holds(keys), {}, {}, {}, {}
-- A lease may stand in a batch twice: its parts and its end share one record.
local shared = {}
for place, hold in ipairs(holds) do
  if hold then
    if shared[keys[place]] then
      holds[place] = shared[keys[place]]
    else
      shared[keys[place]] = hold
      if hold[HOLD_HOST] ~= '' then of_hosts[#of_hosts + 1] = hold[HOLD_HOST] end
    end
  end
end
load_hosts(of_hosts)

for place, head in ipairs(heads) do
  local key, hold, first = keys[place], holds[place], places[place] + 1
  local record, news = false, head[H_NEWS]
  if did(news, WITH_ROBOTS) then
    record = ARGV[first]
    first = first + 1
  end
  local page_record = head[H_NEXT_AT] and ARGV[first]
  if page_record then first = first + 1 end
  if not hold or hold[EPOCH] ~= head[H_EPOCH] or over[key] then
    accepted[place] = '0'
  else
    accepted[place] = '1'
    local is_by_proxy = false
    for link = 0, head[H_LINKS] - 1 do links[#links + 1] = first + head[H_ITEMS] + link * ENTRY end
    local tally = head[H_TALLY] or {}
    for name = 1, #tally, 2 do bump(tally[name], tally[name + 1]) end
    if head[H_MORE] then
      local list = RUN .. 'staged:' .. format('%d', hold[EPOCH])
      -- A part comes again when the answer to it was lost on the way: then its items are here already.
      if head[H_ITEMS] > 0 and (head[H_AFTER] == nil or call('LLEN', list) == head[H_AFTER]) then
        local staged = {}
        for item = 0, head[H_ITEMS] - 1 do staged[#staged + 1] = ARGV[first + item] end
        bulk('RPUSH', list, staged)
        hold[STAGED] = true
        save_hold(key, hold)
      end
    else
      over[key] = true
      if head[H_COOKIES] then jar_versions[#jar_versions + 1] = jars.take(head[H_COOKIES]) end
      publish(key, hold, head, first)
      end_hold(key, hold)
      if hold[TAKEN] ~= '' then
        local going_on = 0
        for link = 0, head[H_LINKS] - 1 do
          local word = ARGV[first + head[H_ITEMS] + link * ENTRY + 2]
          if string.find(word, '[@ ]' .. LOGIN_WORD) then going_on = going_on + 1 end
        end
        sessions.committed(hold[TAKEN], row_of(hold)[NEED], head[H_ENDING], head[H_EXPIRED], going_on)
      end
      if key == SEED_KEY then
        seeding_over(head[H_ENDING] == 'failed' and head[H_ERROR] or '')
      else
        local host_key = hold[HOLD_HOST]
        local h = host_of(host_key)
        if not head[H_TOUCHED] then politeness.given_back(h, hold[EPOCH]) end
        pace.note(host_key, h, hold[WORKER])
        local proxy = hold[HOLD_PROXY]
        is_by_proxy = proxy ~= '' and head[H_PROXY]
          and proxies.hear(proxy, host_key, head[H_PROXY], head[H_CLASS], head[H_RETRY], head[H_ENDING] == 'retry')
        if is_by_proxy then
          if work_of(key) == PAGE then fail_by_proxy(key, hold, head) end
        else
          local was_spent = budgets.is_spent(h)
          local struck = hear(host_key, h, hold, head, record)
          local gate = work_of(key) == ROBOTS
          if gate and did(news, BLOCKED + UNREACHABLE) then politeness.gate_failed(h) end
          if struck then
            troubles[#troubles + 1] = {
              host_key, h[HOST_ERROR], h[STRIKES] + h[BLOCKS], text(due_at(h) - now),
              is_given_up(h, gate) and 1 or 0, '', 0,
            }
          end
          if work_of(key) == PAGE then
            end_page(key, hold, h, head, struck)
            if page_record then known_pages.save_record(key, head[H_NEXT_AT], page_record) end
          end
          if budgets.is_spent(h) and not was_spent then
            troubles[#troubles + 1] = {host_key, HOST_BUDGET, 0, '0', 1, budgets.rule_of(h), h[PAGES]}
          end
        end
      end
    end
    if did(news, BLOCKED + UNREACHABLE) and hold[HOLD_HOST] ~= '' and not is_by_proxy then
      downed[#downed + 1] = {hold[HOLD_HOST], head, work_of(key) == ROBOTS}
    end
  end
end
if #outbox > 0 then
  bulk('RPUSH', RUN .. 'items', outbox)
  J.position = J.position + #outbox
end
for _, pair in ipairs(downed) do
  if is_given_up(host_of(pair[1]), pair[3]) then give_up(pair[1], pair[2][H_CLASS], pair[2][H_ERROR]) end
end
if budgets.may_stop() then
  for place, key in ipairs(keys) do
    local host_key = accepted[place] == '1' and holds[place][HOLD_HOST] or ''
    if host_key ~= '' and budgets.is_stopped(host_of(host_key)) then
      notable[host_key] = true
      stop(host_key)
    end
  end
end
local new = add(links)
if #links > new then
  for _, name in ipairs({'duplicates', 'duplicates_sent'}) do bump(name, #links - new) end
end
sample_rate()
if share.others_are_short(worker) then
  local good, outcomes, held, pages = 0, 0, 0, 0
  for place, head in ipairs(heads) do
    if accepted[place] == '1' and not head[H_MORE] then
      outcomes = outcomes + 1
      if head[H_ENDING] ~= 'retry' and head[H_ENDING] ~= 'failed' then
        good = good + 1
        if keys[place] ~= SEED_KEY then
          held, pages = held + math.min(now - holds[place][LEASED_AT], MAX_HELD_SECONDS), pages + 1
        end
      end
    end
  end
  J.held_seconds = share.held_after(J.held_seconds or 0, held, pages)
  local short_worker = J.short_workers[worker]
  if short_worker then short_worker[QUALITY] = share.quality_after(short_worker[QUALITY], good, outcomes) end
end
if J.shards and #pace.hosts > 0 then
  -- For the lease that follows. A worker that is killed and started again under its name takes longer than that.
  local members = {}
  for _, key in ipairs(pace.hosts) do
    members[#members + 1] = text(now)
    members[#members + 1] = key
  end
  bulk('ZADD', RUN .. 'paced:' .. worker, members)
  call('EXPIRE', RUN .. 'paced:' .. worker, 1)
end
save_hosts()
save_holds()

local answer = {table.concat(accepted), false, new, troubles, jar_versions, reign()}
if want > 0 then answer[2] = lease(worker, want, permits_run, permits_known) end
answers.remember(worker, token, answer[1])
close()
return answer
