-- call: one call to a set of skitter.dedup, in one step.
--
--   skitter:dedup:{NAME}:state      string  msgpack map: kind, secret, what the set was made with, its record
--   skitter:dedup:{NAME}:seen:...   the sets and strings of its kind (exact.lua, bloom.lua, expiring.lua)
--
-- KEYS: state. ARGV: "add" or "has", the time for tests (empty: the server's clock), then ids in 8 bytes for a Bloom
-- filter, and in decimal for the others.
-- Answers a text of 1 and 0: which were new, or which are known; and the items of a Bloom filter's first sub-filter. False if
-- there is no such set.

local prefix = string.sub(KEYS[1], 1, -6) .. 'seen:'
-- While a Redis Cluster moves keys, a script fails at the first that is gone from here. A key that is never there is missed
-- at once, before anything is written.
redis.call('EXISTS', prefix .. 'never')
local stored = redis.call('GET', KEYS[1])
if not stored then return false end
local state = cmsgpack.unpack(stored)
local record, kind = state.record, ({exact = exact, bloom = bloom, expiring = expiring})[state.kind]
local adds, answers = ARGV[1] == 'add', {}
if state.kind == 'expiring' then
  local time = redis.call('TIME')
  expiring.read_clock(record, ARGV[2] ~= '' and tonumber(ARGV[2]) or time[1] + time[2] / 1000000)
  if adds then expiring.turn(record, prefix) end
end
local act = adds and kind.add or kind.has
for place = 3, #ARGV do answers[place - 2] = act(record, prefix, ARGV[place]) and '1' or '0' end
if adds then redis.call('SET', KEYS[1], cmsgpack.pack(state)) end
return {table.concat(answers), state.kind == 'bloom' and record.items[1] or 0}
