-- Sessions that the frontier hands out: what only jobs with a pool, exclusive sessions or logins call for.
-- policy/sessions.py has the rules and the reasons.
--
--   sessions      hash    name -> msgpack array: its record, model.session.SessionRecord
--
-- As with needs, these functions are made when the first of them is used. S.sessions: the settings, if there are such sessions.

local USES, BUSY, GENERATION, SESSION_STATE, SINCE, BORN_AT, USED_AT, FAILURES, LOGINS = 1, 2, 3, 4, 5, 6, 7, 8, 9
local KEPT_PROXY = 10

local function define_sessions(_, name)
  setmetatable(sessions, nil)
  -- Without settings of sessions, a run that had some before goes on with others: none is handed out.
  local rules, loaded, served = S.sessions, {}, {}
  local has_pool = rules and rules.pool > 0

  local function load(session)
    if not loaded[session] then
      local stored = call('HGET', RUN .. 'sessions', session)
      loaded[session] = stored and unpacked(stored)
        or {0, 0, 1, rules.login and SESSION_EXPIRED or SESSION_READY, 0, now, 0, 0, 0, ''}
    end
    return loaded[session]
  end

  local function save(session)
    call('HSET', RUN .. 'sessions', session, pack(loaded[session]))
  end

  -- The word of a need that begins so, without that; nil: there is none.
  local function named(need, prefix)
    for word in string.gmatch(need, '%S+') do
      if string.sub(word, 1, #prefix) == prefix then return string.sub(word, #prefix + 1) end
    end
  end

  local function is_worn(record)
    if record[SESSION_STATE] ~= SESSION_READY then return false end
    if rules.max_seconds and now >= record[BORN_AT] + rules.max_seconds then return true end
    return rules.max_uses and record[USES] >= rules.max_uses
  end

  local function is_idle(record)
    return not rules.exclusive or record[BUSY] == 0
  end

  local function is_free(record)
    return record[SESSION_STATE] == SESSION_READY and is_idle(record) and not is_worn(record)
  end

  local function end_login(record)
    record[SESSION_STATE], record[SINCE], record[BORN_AT], record[USES] = SESSION_READY, 0, now, 0
  end

  local function fail_login(record)
    record[FAILURES], record[LOGINS] = record[FAILURES] + 1, 0
    if record[FAILURES] >= MAX_LOGIN_FAILURES then return end_login(record) end
    record[GENERATION], record[SESSION_STATE] = record[GENERATION] + 1, SESSION_EXPIRED
    record[SINCE] = now + LOGIN_RETRY_SECONDS * 2 ^ (record[FAILURES] - 1)
  end

  local function replace(session, record)
    record[GENERATION] = record[GENERATION] + 1
    record[USES], record[LOGINS], record[SINCE], record[BORN_AT], record[KEPT_PROXY] = 0, 0, 0, now, ''
    record[SESSION_STATE] = rules.login and SESSION_EXPIRED or SESSION_READY
    if J.jars then jars.clear(session) end
    save(session)
  end

  local function word_is_served(word)
    if served[word] then return true end
    local login, session = named(word, LOGIN_WORD), named(word, SESSION_WORD)
    if not rules or (session == POOL and not has_pool) then return login ~= nil or session ~= nil end
    if login then
      local record = load(login)
      return record[SESSION_STATE] ~= SESSION_EXPIRED and is_idle(record)
    end
    if session == POOL then
      for number = 1, rules.pool do
        if is_free(load(POOL .. '-' .. number)) then return true end
      end
      return false
    end
    return session and is_free(load(session)) or false
  end

  local function is_served(need)
    for word in string.gmatch(need, '%S+') do
      if not word_is_served(word) then return false end
    end
    return true
  end

  local function look_at(session, login_is_queued)
    local record = load(session)
    if is_worn(record) then replace(session, record) end
    if record[SESSION_STATE] == SESSION_LOGGING_IN and now > record[SINCE] + LOGIN_SECONDS and not login_is_queued then
      fail_login(record)
      save(session)
    end
    if record[SESSION_STATE] == SESSION_EXPIRED and now >= record[SINCE] then
      local place = #sessions.logins
      sessions.logins[place + 1], sessions.logins[place + 2] = session, record[GENERATION]
      record[SINCE] = now + LOGIN_ASK_SECONDS
      save(session)
    end
  end

  -- The needs that the worker of this call can be granted, in the place of those that it serves by itself.
  function sessions.serve()
    local queued, names, seen_names, logging_in = {}, {}, {}, {}
    for _, word in ipairs(needs.served) do served[word] = true end
    local found = call('HGETALL', RUN .. 'needs')
    for place = 1, #found, 2 do queued[#queued + 1] = {found[place], tonumber(found[place + 1])} end
    table.sort(queued, function(one, other)
      if one[2] ~= other[2] then return one[2] > other[2] end
      return one[1] < other[1]
    end)
    local function note(session)
      if not seen_names[session] then
        seen_names[session] = true
        names[#names + 1] = session
      end
    end
    for place = 1, rules and math.min(#queued, MAX_NEEDS) or 0 do
      local login = named(queued[place][1], LOGIN_WORD)
      local session = named(queued[place][1], SESSION_WORD) or login
      if login then logging_in[login] = true end
      if session == POOL then
        for number = 1, rules.pool do note(POOL .. '-' .. number) end
      elseif session then
        note(session)
      end
    end
    table.sort(names)
    for _, session in ipairs(names) do look_at(session, logging_in[session]) end
    needs.served = {}
    for place = 1, math.min(#queued, MAX_NEEDS) do
      if is_served(queued[place][1]) then table.insert(needs.served, queued[place][1]) end
    end
  end

  -- Take a session for a request: its name and generation, or nothing.
  function sessions.grant(need, epoch)
    local login = named(need, LOGIN_WORD)
    local session = login or named(need, SESSION_WORD)
    if not session or (session == POOL and not has_pool) then return '' end
    if session == POOL then
      local least
      for number = 1, rules.pool do
        local other = load(POOL .. '-' .. number)
        if is_free(other) and (not least or other[USED_AT] < least) then
          least, session = other[USED_AT], POOL .. '-' .. number
        end
      end
    end
    local record = load(session)
    record[BUSY], record[USED_AT] = record[BUSY] + 1, epoch
    if not login then record[USES] = record[USES] + 1 end
    save(session)
    return session .. ' ' .. format('%d', record[GENERATION])
  end

  -- The proxy of a grant with a session that was just taken, which keeps it as long as it is free.
  function sessions.pick_proxy(taken, host_key)
    local session = string.match(taken, '^(.*) %d+$')
    local record = load(session)
    local proxy = proxies.pick(host_key, record[KEPT_PROXY])
    if rules.keeps_proxy and record[KEPT_PROXY] ~= proxy then
      record[KEPT_PROXY] = proxy
      save(session)
    end
    return proxy
  end

  -- Whether a need that was served is not any more; such are left out from now on.
  function sessions.leave_needs()
    local left = {}
    for _, need in ipairs(needs.served) do
      if is_served(need) then left[#left + 1] = need end
    end
    local lost = #left < #needs.served
    needs.served = left
    return lost
  end

  local function of(taken)
    local session, generation = string.match(taken, '^(.*) (%d+)$')
    return session, tonumber(generation)
  end

  function sessions.ended(taken)
    local session = of(taken)
    local record = load(session)
    record[BUSY] = record[BUSY] - 1
    save(session)
  end

  -- It was not used after all.
  function sessions.given_back(taken, need)
    local session, generation = of(taken)
    local record = load(session)
    if record[GENERATION] == generation and record[USES] > 0 and not named(need, LOGIN_WORD) then
      record[USES] = record[USES] - 1
      save(session)
    end
  end

  -- What an accepted outcome tells of its session. `links`: how many of its links go on with a login.
  function sessions.committed(taken, need, ending, expired, links)
    local session, generation = of(taken)
    local record = load(session)
    if record[GENERATION] ~= generation then return end
    if named(need, LOGIN_WORD) then
      if ending ~= 'retry' and record[SESSION_STATE] == SESSION_LOGGING_IN then
        record[LOGINS] = record[LOGINS] + links - 1
        if record[LOGINS] <= 0 and (ending == 'failed' or ending == 'excluded') then
          fail_login(record)
        elseif record[LOGINS] <= 0 then
          end_login(record)
          record[FAILURES] = 0
        end
        save(session)
      end
    elseif expired and record[SESSION_STATE] == SESSION_READY then
      replace(session, record)
    end
  end

  -- Whether the login that a worker has begun counts.
  function sessions.log_in(session, generation, requests, failed)
    local record = load(session)
    if record[SESSION_STATE] ~= SESSION_EXPIRED or record[GENERATION] ~= generation then return false end
    if failed then
      fail_login(record)
    elseif requests > 0 then
      record[SESSION_STATE], record[SINCE], record[LOGINS] = SESSION_LOGGING_IN, now, requests
    else
      end_login(record)
      record[FAILURES] = 0
    end
    save(session)
    return true
  end

  -- Set how many requests are in flight with a session.
  function sessions.set_in_flight(session, number)
    load(session)[BUSY] = number
    save(session)
  end

  return sessions[name]
end

setmetatable(sessions, {__index = define_sessions})
