-- Jars of cookies: what only jobs that have met a cookie call for. policy/cookies.py has the rules and the reasons.
--
--   jars          hash    SESSION DOMAIN (with a blank between them) -> msgpack array: version, changed at, cookies; a
--                         cookie is the array model.session.Cookie
--   jar_order     zset    SESSION DOMAIN by version, those of named sessions after all others: the first gives way
--   jar_domains   hash    DOMAIN -> version of its newest jar, blank, number of its jars
--
-- As with needs, these functions are made when the first of them is used.

local JAR_VERSION, JAR_CHANGED_AT, JAR_COOKIES = 1, 2, 3
local COOKIE_NAME, COOKIE_VALUE, COOKIE_DOMAIN, COOKIE_PATH, COOKIE_EXPIRES = 1, 2, 3, 4, 5

local function define_jars(_, name)
  setmetatable(jars, nil)
  local versions = {}
  -- Jars that outcomes of this call have changed, and that were as their worker knew them.
  local current = {}

  -- The newest version of the jars of a host's registrable domain: one of the names above the host is.
  function jars.version_of(host_key)
    local host = string.gsub(string.gsub(host_key, '^[a-z]+://', ''), ':%d+$', '')
    if versions[host] then return versions[host] end
    local above, rest = {host}, host
    if not string.find(host, '^%[') and not string.find(host, '%.%d+$') then
      while #above < 8 do
        rest = string.match(rest, '^[^.]*%.(.+)$')
        if not rest then break end
        above[#above + 1] = rest
      end
    end
    versions[host] = 0
    for _, found in ipairs(fetch(RUN .. 'jar_domains', above)) do
      if found then
        versions[host] = tonumber(string.match(found, '^%d+'))
        break
      end
    end
    return versions[host]
  end

  local function count_domain(domain, version, step)
    local version_now, count = string.match(call('HGET', RUN .. 'jar_domains', domain) or '0 0', '^(%d+) (%d+)$')
    count = tonumber(count) + step
    if count <= 0 then
      call('HDEL', RUN .. 'jar_domains', domain)
    else
      call('HSET', RUN .. 'jar_domains', domain, format('%d %d', version or tonumber(version_now), count))
    end
  end

  local function size_of(cookie)
    return #cookie[COOKIE_NAME] + #cookie[COOKIE_VALUE] + #cookie[COOKIE_DOMAIN] + #cookie[COOKIE_PATH]
  end

  local function merged(known, changes)
    local places, order, changed, count, size = {}, {}, {}, 0, 0
    for _, cookies in ipairs({known, changes}) do
      for _, cookie in ipairs(cookies) do
        local key = cookie[COOKIE_NAME] .. '\n' .. cookie[COOKIE_DOMAIN] .. '\n' .. cookie[COOKIE_PATH]
        local place, stays = places[key] or #order + 1, cookie[COOKIE_EXPIRES] ~= DELETED
        places[key], order[place], changed[place] = stays and place or nil, stays and cookie, cookies == changes
      end
    end
    for _, cookie in ipairs(order) do
      if cookie then count, size = count + 1, size + size_of(cookie) end
    end
    for _, is_changed in ipairs({false, true}) do
      for place, cookie in ipairs(order) do
        if cookie and changed[place] == is_changed and (count > MAX_JAR_COOKIES or size > MAX_JAR_BYTES) then
          order[place], count, size = false, count - 1, size - size_of(cookie)
        end
      end
    end
    local left = {}
    for _, cookie in ipairs(order) do
      if cookie then left[#left + 1] = cookie end
    end
    return left
  end

  -- Change a jar; its version after it, or 0 if it was not as the worker knew it. News: {session, domain, base, cookies}.
  function jars.take(news)
    local session, domain = news[1], news[2]
    local member = session .. ' ' .. domain
    local stored = call('HGET', RUN .. 'jars', member)
    local known = stored and unpacked(stored) or {0, 0, {}}
    J.jar_version = (J.jar_version or 0) + 1
    if not stored then J.jars = (J.jars or 0) + 1 end
    call('HSET', RUN .. 'jars', member, pack({J.jar_version, now, merged(known[JAR_COOKIES], news[4])}))
    call('ZADD', RUN .. 'jar_order', J.jar_version + (session ~= '' and NAMED_RANK or 0), member)
    count_domain(domain, J.jar_version, stored and 0 or 1)
    if J.jars > MAX_JARS then
      local oldest = call('ZPOPMIN', RUN .. 'jar_order')[1]
      call('HDEL', RUN .. 'jars', oldest)
      count_domain(string.match(oldest, ' (.*)$'), nil, -1)
      J.jars = J.jars - 1
    end
    versions = {}
    if known[JAR_VERSION] ~= news[3] and not current[member] then return 0 end
    current[member] = true
    return J.jar_version
  end

  -- Forget the cookies of a session; the jars stay, so that workers which know them learn of it.
  function jars.clear(session)
    for _, member in ipairs(call('ZRANGE', RUN .. 'jar_order', 0, -1)) do
      if string.match(member, '^(.*) ') == session then
        local version = (J.jar_version or 0) + 1
        J.jar_version = version
        call('HSET', RUN .. 'jars', member, pack({version, now, {}}))
        call('ZADD', RUN .. 'jar_order', version + NAMED_RANK, member)
        count_domain(string.match(member, ' (.*)$'), version, 0)
      end
    end
    versions = {}
  end

  -- Make the indexes anew, from the jars.
  function jars.index()
    local stored, domains = call('HGETALL', RUN .. 'jars'), {}
    call('DEL', RUN .. 'jar_order', RUN .. 'jar_domains')
    J.jars = #stored > 0 and #stored / 2 or nil
    for place = 1, #stored, 2 do
      local session, domain = string.match(stored[place], '^(.*) (.*)$')
      local version = unpacked(stored[place + 1])[JAR_VERSION]
      call('ZADD', RUN .. 'jar_order', version + (session ~= '' and NAMED_RANK or 0), stored[place])
      count_domain(domain, math.max(version, domains[domain] or 0), 1)
      domains[domain] = math.max(version, domains[domain] or 0)
      J.jar_version = math.max(J.jar_version or 0, version)
    end
  end

  return jars[name]
end

setmetatable(jars, {__index = define_jars})
