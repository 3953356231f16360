-- bloom: a Bloom filter of 64-bit ids, in sub-filters whose sizes Python has computed (dedup/bloom_layout.py).
--
--   PREFIX .. SUB .. ':' .. BLOCK   string   a block of the bitmap of sub-filter SUB, of its full size from the first bit on
--
-- A record has all sub-filters that there may come to be, and of those that there are the items and the bits that are set:
-- {layout = {{capacity, hashes, blocks, block_bits}, ...}, items = {...}, ones = {...}}. The layout may be shared.

local bloom = {}

function bloom.new(layout)
  return {layout = layout, items = {0}, ones = {0}}
end

-- The key of an id's block, its first position there and the distance to the next. The id is 8 bytes; dedup/bloom.py has
-- the same arithmetic.
function bloom.start(record, prefix, sub, id)
  local high, low = struct.unpack('>I4I4', id)
  local size = record.layout[sub]
  local block = math.floor(high * size.blocks / 4294967296)
  return prefix .. sub .. ':' .. block, math.floor(low * size.block_bits / 4294967296),
    (high % 65536 * 8192 + low % 8192) % (size.block_bits - 1) + 1
end

-- Bit by bit: for what is new, the second look on average says so.
function bloom.is_in(record, prefix, sub, id)
  local key, position, distance = bloom.start(record, prefix, sub, id)
  local bits = record.layout[sub].block_bits
  for number = 1, record.layout[sub].hashes do
    if redis.call('GETBIT', key, position) == 0 then return false end
    position = (position + distance) % bits
    distance = distance + number - 1
  end
  return true
end

function bloom.has(record, prefix, id)
  -- The newest first: it is the largest, and has most of what comes again.
  for sub = #record.items, 1, -1 do
    if bloom.is_in(record, prefix, sub, id) then return true end
  end
  return false
end

-- Whether the id is new.
function bloom.add(record, prefix, id)
  if bloom.has(record, prefix, id) then return false end
  local sub = #record.items
  if record.items[sub] >= record.layout[sub].capacity and record.layout[sub + 1] then
    sub = sub + 1
    record.items[sub], record.ones[sub] = 0, 0
  end
  local size = record.layout[sub]
  local key, position, distance = bloom.start(record, prefix, sub, id)
  -- A bit behind the last one gives a new block its size at once; growing, it would take up to twice as much. Later on
  -- all blocks are there.
  if record.items[sub] < 32 * size.blocks then redis.call('SETBIT', key, size.block_bits, 0) end
  -- One command: the log of the server has it as it is.
  local words = {}
  for number = 1, size.hashes do
    words[4 * number - 3], words[4 * number - 2] = 'SET', 'u1'
    words[4 * number - 1], words[4 * number] = position, 1
    position = (position + distance) % size.block_bits
    distance = distance + number - 1
  end
  local ones = record.ones[sub]
  for _, bit in ipairs(redis.call('BITFIELD', key, unpack(words))) do ones = ones + 1 - bit end
  record.items[sub], record.ones[sub] = record.items[sub] + 1, ones
  return true
end
