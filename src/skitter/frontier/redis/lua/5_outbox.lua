-- The outbox.
--
--   RUN:items, RUN:sinks: see 1_job.lua

-- The counter of an item's kind.
local counters = {[RECORD_KIND] = RECORD_COUNTER, [REJECT_KIND] = REJECT_COUNTER, [PAGE_KIND] = PAGE_COUNTER}

-- A target that gets what comes from now on.
local function new_sink()
  return {J.position, false, '', 0, 0, ''}
end

-- The ids of the pages of the first items, but of one that has items behind them, and without archived pages.
function delivered.note(count)
  local behind, before = call('LINDEX', RUN .. 'items', count), ''
  local unfinished = behind and string.sub(behind, 1, 8)
  for first = 0, count - 1, BATCH do
    for _, item in ipairs(call('LRANGE', RUN .. 'items', first, math.min(first + BATCH, count) - 1)) do
      local raw = string.sub(item, 1, 8)
      if raw ~= before and raw ~= unfinished and string.byte(item, 13) ~= PAGE_KIND then
        delivered.add(exact.decimal(raw))
        before = raw
      end
    end
  end
end

-- Forget the items that every target holds; all of them when there is no target.
local function drop_items()
  local held, sinks = J.position, load_sinks()
  for _, sink in pairs(sinks) do held = math.min(held, sink[POSITION]) end
  local count = math.min(held - J.first_item + 1, call('LLEN', RUN .. 'items'))
  if count > 0 then
    -- Without a target they went nowhere.
    if S.skips_delivered and next(sinks) then delivered.note(count) end
    call('LTRIM', RUN .. 'items', count, -1)
    J.first_item = J.first_item + count
  end
end
