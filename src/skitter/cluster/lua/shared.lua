-- What all scripts of the Redis coordinator share. KEYS[1] is the prefix of all its keys, skitter:cluster:{NAMESPACE}:
-- whose hash tag keeps them in one slot of a Redis Cluster. Its keys:
--   counter          string  the last token or version that was given out; never expires
--   lock:NAME        hash    owner, token; expires with its lifetime
--   group:GROUP      zset    members by when they end, in milliseconds of TIME
--   data:GROUP       hash    member -> owner, a space, data; both expire with the longest lifetime
--   entry:PATH       hash    value, version
--   children:PATH    zset    names of the keys directly below, all with score 0; that of the root is "children:"
--   rate:KEY         string  when the next event is due at the pace of the limit, in microseconds of TIME; expires then
local P = KEYS[1]

local function now_micros()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- The next token or version: greater than all before. It is never below the clock, so that a counter that was lost
-- with its server does not begin anew. Microseconds stay exact in a number of Lua until the year 2255.
local function next_number()
  local last = tonumber(redis.call('GET', P .. 'counter') or '0')
  local number = math.max(last + 1, now_micros())
  redis.call('SET', P .. 'counter', string.format('%.0f', number))
  return number
end

-- PX of 0 would delete.
local function millis(text)
  return math.max(1, math.floor(tonumber(text)))
end
