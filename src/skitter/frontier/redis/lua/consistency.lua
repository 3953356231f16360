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

-- The text of an id, as the seen set has it: Lua's numbers cannot hold it.
local function decimal_of(raw)
  local parts = {struct.unpack('>I2I2I2I2', raw)}
  local sign = ''
  if parts[1] >= 32768 then
    sign = '-'
    local carry = 1
    for place = 4, 1, -1 do
      parts[place] = 65535 - parts[place] + carry
      carry = parts[place] == 65536 and 1 or 0
      if carry == 1 then parts[place] = 0 end
    end
  end
  local high, middle, low = 0, 0, 0
  for place = 1, 4 do
    low = low * 65536 + parts[place]
    middle = middle * 65536 + math.floor(low / 1e9)
    high = high * 65536 + math.floor(middle / 1e9)
    low, middle = low % 1e9, middle % 1e9
  end
  if high > 0 then return sign .. format('%d%09d%09d', high, middle, low) end
  if middle > 0 then return sign .. format('%d%09d', middle, low) end
  return sign .. format('%d', low)
end

local function shown(id)
  return 'request ' .. decimal_of(id)
end

local function check_seen(id)
  local text_of_id = decimal_of(id)
  if call('SISMEMBER', seen_key(bucket_of(text_of_id)), text_of_id) == 0 then
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
