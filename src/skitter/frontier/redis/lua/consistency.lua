-- What the scripts of the consistency check share (scripts.py puts it before check_*.lua and mend_*.lua).
--
-- Each of them looks at a piece that is small enough to hold the server for some milliseconds, and what it compares
-- belongs to one host, one request or one lease: so a fault that is told is one at that instant, whoever else works.

-- {code, place, what, expected, found, how it is mended: a script and its arguments, or false}
local faults = {}

local function fault(code, place, what, expected, found, ...)
  faults[#faults + 1] = {code, place, what, tostring(expected), tostring(found), select('#', ...) > 0 and {...}}
end

-- Epochs are larger than what Lua writes in full by itself.
local function whole(number)
  return format('%.0f', number)
end

local function shown(id)
  return 'request ' .. exact.decimal(id)
end

local function check_seen(id)
  local text_of_id = exact.decimal(id)
  if not exact.has(J.seen, RUN .. 'seen:', text_of_id) then
    fault('not_seen', shown(id), 'the seen set', 'has it', 'has not', 'mend_request', 'seen', id, text_of_id)
  end
end

local function check_seq(id, seq)
  if seq >= J.next_seq then
    fault('sequence', shown(id), 'next_seq', 'more than ' .. seq, J.next_seq, 'mend_job', 'set', 'next_seq', seq + 1)
  end
end

-- The record of a host in this run; nothing if it has none.
local function host_in_run(key)
  local stored = call('HGET', BASE .. 'hosts', key)
  local h = stored and unpack_host(stored)
  return h and h[RUN_OF] == J.run and h or nil
end

-- The queues of a host: need, or nothing, and the queue.
local function queues_of(h)
  local queues = {[''] = h}
  for need, queue in pairs(h[NEEDS] or {}) do queues[need] = queue end
  return queues
end

local function returned_of(key, need)
  return need == '' and RUN .. 'returned:' .. key or needs.returned_of(key, need)
end

local function suspects_of(need)
  return need == '' and 'suspects' or 'suspects_for:' .. need
end

-- All sets in which a host stands: {set, score, name} each.
local function all_stands_of(key, h)
  local stands = needs.stands_of(key, h)
  local set, score, name = stand_of(key, h)
  if set then stands[#stands + 1] = {set, score, name} end
  return stands
end

-- The exact sets of the job: what their keys begin with, and their records. Of generations, those that are not too old.
local function exact_sets()
  local sets, record = {{RUN .. 'seen:', J.seen}}, seen.load()
  if J.delivered then sets[#sets + 1] = {BASE .. 'delivered:', J.delivered} end
  if record and S.layout then sets[#sets + 1] = {RUN .. 'kept:', record.kept} end
  for _, generation in ipairs(record and record.generations or {}) do
    if expiring.is_alive(record, generation) then
      sets[#sets + 1] = {RUN .. 'generation:' .. generation.number .. ':', generation}
    end
  end
  return sets
end

-- The record of the exact set that a key belongs to, and what its keys begin with.
local function exact_set_of(key)
  local prefix = string.match(key, '^(.*:)%d+$')
  for _, set in ipairs(exact_sets()) do
    if set[1] == prefix then return set[2], prefix end
  end
end

-- The time when a page is due, by its record; nil: it has none, or another form. The record is an array with two times at its
-- beginning, which cannot be unpacked as a whole: Redis does not know the binary strings of msgpack.
local function next_at(id)
  local stored = call('HGET', BASE .. 'records', id)
  if not stored or string.byte(stored, 2) ~= 203 or string.byte(stored, 11) ~= 203 then return end
  return (struct.unpack('>d', stored, 12))
end
