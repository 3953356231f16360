-- Needs: what only jobs with requests that have a need call for.
--
--   needs, q_for:NEED:P:HOST, returned_for:NEED:HOST, ready_for:NEED:P, tops_for:NEED, suspects_for:NEED, parked: see 1_job.lua
--
-- These functions are made when the first of them is used. A script is run anew for each call, and to make a function that uses
-- names from outside costs as much as a short one takes: all of these, a twelfth of the whole script.

-- Needs whose priorities a shard's status tells.
local MOST_NEEDS = 64

local function define_needs(_, name)
  setmetatable(needs, nil)

  -- Where a host stands for its needs.
  function needs.stands_of(key, h)
    local stands, score = {}, h[SERVED] - (pace.is_in_burst(h) and BURST_RANK or 0)
    for need, queue in pairs(h[NEEDS] or {}) do
      if h[PHASE] == READY then
        stands[#stands + 1] = {RUN .. 'ready_for:' .. need .. ':' .. level(queue[TOP]), score, key}
      elseif h[PHASE] == PARKED then
        stands[#stands + 1] = {RUN .. 'parked', 0, addresses.parked_name(key, h, need, queue[TOP])}
      end
    end
    return stands
  end

  -- A host to where it stands now for its needs. Answers one of the sets where it stood, and one where it stands now.
  function needs.move(key, h, joins, leaves)
    local before, stands = needs.stood[key] or {}, needs.stands_of(key, h)
    for _, stand in ipairs(before) do
      leaves[stand[1]] = leaves[stand[1]] or {}
      table.insert(leaves[stand[1]], stand[3])
    end
    for _, stand in ipairs(stands) do
      joins[stand[1]] = joins[stand[1]] or {}
      table.insert(joins[stand[1]], stand[2])
      table.insert(joins[stand[1]], stand[3])
    end
    if h[PHASE] == READY then
      for need, queue in pairs(h[NEEDS] or {}) do
        call('ZADD', RUN .. 'tops_for:' .. need, -queue[TOP], level(queue[TOP]))
      end
    end
    needs.stood[key] = #stands > 0 and stands or nil
    return before[1] and before[1][1], stands[1] and stands[1][1]
  end

  -- The queue of a host for a need: the host itself, if it is empty.
  function needs.queue(h, need)
    if need == '' then return h end
    local queues = h[NEEDS] or {}
    h[NEEDS] = queues
    queues[need] = queues[need] or {[QUEUED] = 0, [TOP] = 0, [LEVELS] = false}
    return queues[need]
  end

  function needs.forget_empty(h, need)
    if need ~= '' and h[NEEDS][need][QUEUED] == 0 then
      h[NEEDS][need] = nil
      if not next(h[NEEDS]) then h[NEEDS] = false end
    end
  end

  -- How many requests are queued, with and without a need.
  function needs.queued(h)
    local queued = h[QUEUED]
    for _, queue in pairs(h[NEEDS] or {}) do queued = queued + queue[QUEUED] end
    return queued
  end

  -- Count the requests of a need that are queued.
  function needs.count(need, step)
    if step == 0 then return end
    J.needy = (J.needy or 0) + step
    if J.needy == 0 then J.needy = nil end
    if call('HINCRBY', RUN .. 'needs', need, step) == 0 then call('HDEL', RUN .. 'needs', need) end
  end

  -- What the worker of this call can serve: names with blanks between them.
  function needs.serve(names)
    for need in string.gmatch(names, '%S+') do table.insert(needs.served, need) end
  end

  function needs.returned_of(key, need)
    return RUN .. (need == '' and 'returned:' or 'returned_for:' .. need .. ':') .. key
  end

  function needs.suspects_of(need)
    return RUN .. (need == '' and 'suspects' or 'suspects_for:' .. need)
  end

  -- The sequence of the first of a host's queue of a need.
  function needs.first_seq(key, queue, need)
    local levels = queue[LEVELS]
    if queue[QUEUED] > count_listed(queue) then
      local head = call('ZRANGE', needs.returned_of(key, need), 0, 0, 'WITHSCORES')
      if not levels or -tonumber(head[2]) >= levels[1] then return (struct.unpack('>I6', head[1])) end
    end
    return (struct.unpack('>I5', call('LINDEX', queue_of(key, levels[1], need), 0)))
  end

  -- The need of a host's first request that the worker of this call can serve.
  function needs.first_of(key, h)
    local best, seq, top = '', false, needs.top(h)
    if h[QUEUED] > 0 and h[TOP] == top and not needs.only then seq = needs.first_seq(key, h, '') end
    for _, need in ipairs(needs.served) do
      local queue = h[NEEDS][need]
      if queue and queue[TOP] == top then
        local first = needs.first_seq(key, queue, need)
        if not seq or first < seq then best, seq = need, first end
      end
    end
    return best
  end

  -- The best hosts for a worker that serves needs: those that are ready for requests without a need, and for each of them.
  -- A host may stand in several places; the best of those that the worker can serve counts. {priority, score, key} each.
  function needs.candidates(limit)
    local best, sorted = {}, {}
    for place = needs.only and 1 or 0, #needs.served do
      local need = needs.served[place]
      local tops = RUN .. (need and 'tops_for:' .. need or 'tops')
      local ready = RUN .. (need and 'ready_for:' .. need .. ':' or 'ready:')
      local found, first = 0, 0
      while found < limit do
        local top = call('ZRANGE', tops, first, first)[1]
        if not top then break end
        local members = call('ZRANGE', ready .. top, 0, limit - found - 1, 'WITHSCORES')
        if #members == 0 then
          call('ZREM', tops, top)
        else
          first, found = first + 1, found + #members / 2
          for member = 1, #members, 2 do
            local key = members[member]
            if not best[key] or tonumber(top) > best[key][1] then
              best[key] = {tonumber(top), tonumber(members[member + 1]), key}
            end
          end
        end
      end
    end
    for _, candidate in pairs(best) do sorted[#sorted + 1] = candidate end
    table.sort(sorted, function(one, other)
      if one[1] ~= other[1] then return one[1] > other[1] end
      if one[2] ~= other[2] then return one[2] < other[2] end
      return one[3] < other[3]
    end)
    return sorted
  end

  -- As ready_hosts, for a worker that serves needs.
  function needs.ready_hosts(limit)
    local queues, order, keys, passed_over = {}, {}, {}, 0
    local candidates = needs.candidates(limit)
    for place = 1, math.min(limit, #candidates) do keys[place] = candidates[place][3] end
    load_hosts(keys)
    for place, key in ipairs(keys) do
      local top = candidates[place][1]
      if not queues[top] then
        queues[top] = {at = 1}
        order[#order + 1] = top
      end
      if phase_of(hosts[key]) == READY then
        table.insert(queues[top], key)
      else
        host_of(key)
        passed_over = passed_over + 1
      end
    end
    for _, queue in pairs(queues) do queue.fresh = #queue end
    return queues, order, passed_over
  end

  -- The first suspects of a worker that serves needs, by sequence.
  function needs.suspects()
    local found, ids = {}, {}
    for place = 0, #needs.served do
      local some = call('ZRANGE', needs.suspects_of(needs.served[place] or ''), 0, SUSPECTS_TRIED - 1, 'WITHSCORES')
      for member = 1, #some, 2 do found[#found + 1] = {some[member], tonumber(some[member + 1])} end
    end
    table.sort(found, function(one, other) return one[2] < other[2] end)
    for place = 1, math.min(SUSPECTS_TRIED, #found) do ids[place] = found[place][1] end
    return ids
  end

  -- Of each need the highest priority of a host that is ready for it: NEED:PRIORITY with blanks between them; and how many
  -- requests of all needs are to be leased alone.
  function needs.ready_tops()
    local told, alone = {}, 0
    for place, need in ipairs(call('HKEYS', RUN .. 'needs')) do
      if place > MOST_NEEDS then break end
      local top = ready_top('tops_for:' .. need, 'ready_for:' .. need .. ':')
      if top then told[#told + 1] = need .. ':' .. top end
      alone = alone + call('ZCARD', needs.suspects_of(need))
    end
    return table.concat(told, ' '), alone
  end

  return needs[name]
end

setmetatable(needs, {__index = define_needs})
