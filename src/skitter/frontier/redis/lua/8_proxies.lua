-- Proxies: what only jobs with a pool call for (frontier/rules/proxies.py and policy/proxy_choice.py have the reasons).
--
--   proxies, host_proxies: see 1_job.lua
--
-- As those of 7_needs.lua, these functions are made when the first of them is used.

-- A proxy (ProxyRecord in model/proxy.py).
local P_ID, P_URL, P_OWNER, P_UNTIL, P_STATE, P_IN_FLIGHT, P_SERVED, P_ANSWERS = 1, 2, 3, 4, 5, 6, 7, 8
local P_FAILURES, P_STREAK, P_RESTS, P_REST_UNTIL, P_BANNED_UNTIL, P_SUCCESS = 9, 10, 11, 12, 13, 14
local P_LATENCY, P_BYTES, P_ERROR = 15, 16, 17
-- What is remembered of the proxies at a host (HostProxies), and of one of them (ProxyPair).
local A_KEPT, A_SUSPECTS, A_PAIRS = 1, 2, 3
local X_ID, X_FAILURES, X_BANS, X_UNTIL = 1, 2, 3, 4

local function define_proxies(_, name)
  setmetatable(proxies, nil)
  local per_proxy, strategy, rotation, ban_seconds = string.match(S.pool or DEFAULT_POOL, '(%S+) (%S+) (%S+) (%S+)')
  per_proxy, ban_seconds = tonumber(per_proxy), tonumber(ban_seconds)

  function proxies.load()
    if not proxies.pool then
      local pool, ids, stored = {}, {}, call('HGETALL', RUN .. 'proxies')
      for place = 1, #stored, 2 do
        ids[#ids + 1] = stored[place]
        pool[stored[place]] = unpacked(stored[place + 1])
      end
      table.sort(ids)
      proxies.pool, proxies.ids = pool, ids
    end
    return proxies.pool
  end

  -- A proxy, to be changed; nil: it is not in the pool.
  function proxies.change(id)
    local p = proxies.load()[id]
    if p then proxies.changed[id] = true end
    return p
  end

  -- What is remembered of the proxies at a host; false: nothing.
  function proxies.at(key)
    local at = proxies.of_hosts[key]
    if at == nil then
      local stored = J.proxy_hosts and call('HGET', RUN .. 'host_proxies', key)
      at = stored and unpacked(stored) or false
      proxies.of_hosts[key] = at
    end
    return at
  end

  function proxies.change_at(key)
    local at = proxies.at(key)
    if not at then
      at = {'', {}, {}}
      proxies.of_hosts[key] = at
      J.proxy_hosts = (J.proxy_hosts or 0) + 1
    end
    proxies.changed_hosts[key] = true
    return at
  end

  function proxies.pair(at, id)
    for _, pair in ipairs(at[A_PAIRS]) do
      if pair[X_ID] == id then return pair end
    end
  end

  local function pair_of(at, id)
    local pair = proxies.pair(at, id)
    if not pair then
      pair = {id, 0, 0, 0}
      table.insert(at[A_PAIRS], pair)
    end
    return pair
  end

  local function is_forgotten(p)
    return p[P_IN_FLIGHT] == 0
      and (p[P_STATE] == PROXY_REMOVED or (p[P_UNTIL] > 0 and p[P_UNTIL] <= now - PROXY_MEMORY_SECONDS))
  end

  local function is_alive(p)
    return p[P_STATE] == PROXY_ACTIVE and not (p[P_UNTIL] > 0 and p[P_UNTIL] <= now) and p[P_REST_UNTIL] <= now
      and p[P_BANNED_UNTIL] <= now
  end

  local function has_room(p)
    if p[P_STREAK] >= REST_FAILURES then return p[P_IN_FLIGHT] < 1 end
    if p[P_STREAK] > 0 or p[P_ANSWERS] == 0 then return p[P_IN_FLIGHT] < math.min(PROBES, per_proxy) end
    return p[P_IN_FLIGHT] < per_proxy
  end

  local function banned_until(at, id)
    local pair = at and proxies.pair(at, id)
    return pair and pair[X_UNTIL] or 0
  end

  -- ---- grants

  -- Whether a proxy is free for a host; if others may be served, and not this one, it waits a while.
  function proxies.can_serve(key, h)
    local pool, at = proxies.load(), proxies.at(key)
    local soonest, any_room, any_welcome = now + HOST_PROXY_SECONDS, false, false
    for _, id in ipairs(proxies.ids) do
      local p = pool[id]
      if is_alive(p) then
        local room, banned = has_room(p), banned_until(at, id)
        any_room = any_room or room
        if banned > now then
          soonest = math.min(soonest, banned)
        elseif room then
          return true
        else
          any_welcome = true
        end
      end
    end
    if not any_room then
      proxies.is_exhausted = true
    else
      h[DUE] = math.max(h[DUE], any_welcome and math.min(soonest, now + POLL_SECONDS) or soonest)
    end
    return false
  end

  local function choose(free, draw)
    if strategy == 'random' then return free[math.floor(draw * #free / DRAW_MODULUS) + 1] end
    if strategy == 'weighted' then
      local total = 0
      for _, p in ipairs(free) do total = total + p[P_SUCCESS] / (p[P_LATENCY] + 1) end
      local left = total * draw / DRAW_MODULUS
      for _, p in ipairs(free) do
        left = left - p[P_SUCCESS] / (p[P_LATENCY] + 1)
        if left < 0 then return p end
      end
      return free[#free]
    end
    local best
    for _, p in ipairs(free) do
      local load = strategy == 'least_connections' and p[P_IN_FLIGHT] or 0
      local least = best and (strategy == 'least_connections' and best[P_IN_FLIGHT] or 0)
      -- By id they come.
      if not best or load < least or (load == least and p[P_SERVED] < best[P_SERVED]) then best = p end
    end
    return best
  end

  -- The proxy of a grant, counted. can_serve has said that there is one.
  function proxies.pick(key, preferred)
    local pool, at, free, chosen = proxies.load(), proxies.at(key), {}, false
    local keeps = rotation == 'host'
    if keeps and preferred == '' and at then preferred = at[A_KEPT] end
    for _, id in ipairs(proxies.ids) do
      local p = pool[id]
      if is_alive(p) and has_room(p) and banned_until(at, id) <= now then
        free[#free + 1] = p
        if id == preferred then chosen = p end
      end
    end
    if not chosen then
      J.proxy_draw = (J.proxy_draw or 1) * DRAW_FACTOR % DRAW_MODULUS
      chosen = choose(free, J.proxy_draw)
    end
    local id = chosen[P_ID]
    if keeps and not (at and at[A_KEPT] == id) then proxies.change_at(key)[A_KEPT] = id end
    J.proxy_serial = (J.proxy_serial or 0) + 1
    chosen[P_SERVED], chosen[P_IN_FLIGHT] = J.proxy_serial, chosen[P_IN_FLIGHT] + 1
    proxies.changed[id] = true
    return id
  end

  function proxies.give_back(id)
    local p = proxies.change(id)
    if p then p[P_IN_FLIGHT] = p[P_IN_FLIGHT] - 1 end
  end

  -- ---- commits

  local function answered(p, latency, bytes)
    p[P_ANSWERS], p[P_STREAK], p[P_RESTS], p[P_REST_UNTIL] = p[P_ANSWERS] + 1, 0, math.floor(p[P_RESTS] / 2), 0
    p[P_BYTES] = p[P_BYTES] + bytes
    p[P_SUCCESS] = p[P_SUCCESS] + PROXY_WEIGHT * (1 - p[P_SUCCESS])
    if latency then
      local old = p[P_LATENCY] ~= 0 and p[P_LATENCY] or latency
      p[P_LATENCY] = old + PROXY_WEIGHT * (latency - old)
    end
  end

  local function failed(p, class)
    p[P_FAILURES], p[P_STREAK], p[P_ERROR] = p[P_FAILURES] + 1, p[P_STREAK] + 1, class
    p[P_SUCCESS] = p[P_SUCCESS] - PROXY_WEIGHT * p[P_SUCCESS]
    if p[P_STREAK] >= REST_FAILURES and p[P_REST_UNTIL] <= now then
      local rest = FIRST_REST_SECONDS * 2 ^ math.min(p[P_RESTS], MAX_PROXY_DOUBLINGS)
      p[P_REST_UNTIL], p[P_RESTS] = now + math.min(rest, MAX_REST_SECONDS), p[P_RESTS] + 1
    end
  end

  local function keep_no_more(at, id)
    if at[A_KEPT] == id then at[A_KEPT] = '' end
  end

  local function ban(at, id)
    local pair = pair_of(at, id)
    if pair[X_UNTIL] > now then return end
    pair[X_UNTIL] = now + math.min(ban_seconds * 2 ^ math.min(pair[X_BANS], MAX_PROXY_DOUBLINGS), MAX_BAN_SECONDS)
    pair[X_BANS], pair[X_FAILURES] = pair[X_BANS] + 1, 0
    keep_no_more(at, id)
  end

  function proxies.ban_for(at, id, seconds)
    pair_of(at, id)[X_UNTIL] = now + seconds
    keep_no_more(at, id)
  end

  local function failed_at(at, id)
    local pair = pair_of(at, id)
    pair[X_FAILURES] = pair[X_FAILURES] + 1
    keep_no_more(at, id)
    if pair[X_FAILURES] >= PAIR_FAILURES then ban(at, id) end
  end

  local function answered_at(at, id)
    at[A_SUSPECTS] = {}
    local pair, kept = proxies.pair(at, id), {}
    if pair and pair[X_UNTIL] <= now then pair[X_FAILURES], pair[X_BANS] = 0, math.max(0, pair[X_BANS] - 1) end
    for _, other in ipairs(at[A_PAIRS]) do
      if other[X_FAILURES] > 0 or other[X_UNTIL] > now
        or (other[X_BANS] > 0 and other[X_UNTIL] + PAIR_MEMORY_SECONDS > now) then
        kept[#kept + 1] = other
      end
    end
    at[A_PAIRS] = kept
  end

  -- Note a failure that may be the host's; true: another proxy says the same.
  local function is_suspected(at, id)
    local suspects, agrees, is_known = at[A_SUSPECTS], false, false
    for _, suspect in ipairs(suspects) do
      if suspect == id then is_known = true else agrees = true end
    end
    if not is_known and #suspects < 2 then suspects[#suspects + 1] = id end
    return agrees
  end

  -- Take in what an outcome tells of its proxy: {fault, latency or nil, bytes}; true: the request failed by the proxy, not by
  -- its host.
  function proxies.hear(id, key, news, class, retry_seconds, is_retry)
    local p, fault = proxies.change(id), news[1]
    if not p then return false end
    if fault == FAULT_UNSURE and is_suspected(proxies.change_at(key), id) then return false end
    if fault == FAULT_NONE or fault == FAULT_UNWANTED then
      answered(p, news[2], news[3])
      if proxies.at(key) then answered_at(proxies.change_at(key), id) end
      if fault == FAULT_UNWANTED then proxies.ban_for(proxies.change_at(key), id, retry_seconds + POLL_SECONDS) end
      return false
    end
    if fault == FAULT_BANNED then
      answered(p, news[2], news[3])
      ban(proxies.change_at(key), id)
    else
      failed(p, class)
      if fault == FAULT_UNSURE then failed_at(proxies.change_at(key), id) end
    end
    return is_retry
  end

  -- ---- the pool

  function proxies.register(id, url, owner, lifetime)
    local pool = proxies.load()
    if not pool[id] then
      if #proxies.ids >= MAX_PROXIES then return false end
      pool[id] = {id, url, owner, 0, PROXY_ACTIVE, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, ''}
      proxies.ids[#proxies.ids + 1] = id
      table.sort(proxies.ids)
    end
    local p = proxies.change(id)
    p[P_URL], p[P_OWNER], p[P_STATE], p[P_UNTIL] = url, owner, PROXY_ACTIVE, lifetime > 0 and now + lifetime or 0
    J.pooled = true
    return true
  end

  -- How many requests are in flight; the state only gets worse.
  function proxies.retire(id, state)
    local p = proxies.change(id)
    if not p then return 0 end
    p[P_STATE] = math.max(p[P_STATE], state)
    return p[P_IN_FLIGHT]
  end

  -- End the bans of a proxy: at a host, or everywhere.
  function proxies.unban(id, key)
    local p, keys = proxies.change(id), {key}
    if key == '' then
      p[P_STREAK], p[P_RESTS], p[P_REST_UNTIL], p[P_BANNED_UNTIL] = 0, 0, 0, 0
      keys = call('HKEYS', RUN .. 'host_proxies')
    end
    for _, host in ipairs(keys) do
      local at = proxies.at(host)
      if at and proxies.pair(at, id) then
        local kept = {}
        for _, pair in ipairs(at[A_PAIRS]) do
          if pair[X_ID] ~= id then kept[#kept + 1] = pair end
        end
        proxies.change_at(host)[A_PAIRS] = kept
      end
    end
  end

  function proxies.save()
    if next(proxies.changed) then
      local gone = {}
      for id in pairs(proxies.changed) do call('HSET', RUN .. 'proxies', id, pack(proxies.pool[id])) end
      for id, p in pairs(proxies.pool) do
        if is_forgotten(p) then gone[#gone + 1] = id end
      end
      if #gone > 0 then bulk('HDEL', RUN .. 'proxies', gone) end
      proxies.changed, proxies.pool = {}, false
    end
    for key in pairs(proxies.changed_hosts) do
      local at = proxies.of_hosts[key]
      if at[A_KEPT] == '' and #at[A_SUSPECTS] + #at[A_PAIRS] == 0 then
        call('HDEL', RUN .. 'host_proxies', key)
        proxies.of_hosts[key] = false
        J.proxy_hosts = J.proxy_hosts - 1
        if J.proxy_hosts == 0 then J.proxy_hosts = nil end
      else
        call('HSET', RUN .. 'host_proxies', key, pack(at))
      end
    end
    proxies.changed_hosts = {}
  end

  return proxies[name]
end

setmetatable(proxies, {__index = define_proxies})
