-- exact: all ids, in sets of packed integers (nine bytes an id) that grow in number by linear hashing.
--
--   PREFIX .. N   set   ids in decimal: bucket N
--
-- A record has the number of buckets, their number when the present round of splits began, their mean size, and the
-- number of ids: {buckets, round, mean, count}.

local exact = {}

function exact.new(mean)
  return {buckets = 1, round = 1, mean = mean, count = 0}
end

function exact.bucket_of(record, id)
  -- The last nine digits: Lua's numbers cannot hold the whole id.
  local address = math.abs(tonumber(string.sub(id, -9)))
  local bucket = address % (record.round * 2)
  if bucket >= record.buckets then bucket = address % record.round end
  return bucket
end

function exact.has(record, prefix, id)
  return redis.call('SISMEMBER', prefix .. exact.bucket_of(record, id), id) == 1
end

function exact.split(record, prefix)
  local old, new = prefix .. record.buckets - record.round, record.buckets
  record.buckets = record.buckets + 1
  local moved = {}
  for _, id in ipairs(redis.call('SMEMBERS', old)) do
    if exact.bucket_of(record, id) == new then moved[#moved + 1] = id end
  end
  -- In pieces that Lua can unpack: the mean may be raised one day.
  for first = 1, #moved, 1000 do
    local last = math.min(first + 999, #moved)
    redis.call('SREM', old, unpack(moved, first, last))
    redis.call('SADD', prefix .. new, unpack(moved, first, last))
  end
  if record.buckets == record.round * 2 then record.round = record.buckets end
end

-- Whether the id is new.
function exact.add(record, prefix, id)
  if redis.call('SADD', prefix .. exact.bucket_of(record, id), id) == 0 then return false end
  record.count = record.count + 1
  -- At once, not after a batch: a set that has outgrown the packed form never returns to it.
  if record.count > record.buckets * record.mean then exact.split(record, prefix) end
  return true
end

function exact.remove(record, prefix, id)
  record.count = record.count - redis.call('SREM', prefix .. exact.bucket_of(record, id), id)
end

-- The decimal form of a signed id of 8 bytes, which Lua's numbers cannot hold: by long division, with digits of 16 bits.
function exact.decimal(raw)
  local digits, sign, text = {struct.unpack('>I2I2I2I2', raw)}, '', ''
  if digits[1] >= 32768 then
    sign = '-'
    local carry = 1
    for place = 4, 1, -1 do
      local digit = 65535 - digits[place] + carry
      digits[place], carry = digit % 65536, math.floor(digit / 65536)
    end
  end
  for limb = 1, 3 do
    local rest = 0
    for place = 1, 4 do
      local value = rest * 65536 + digits[place]
      digits[place], rest = math.floor(value / 1000000000), value % 1000000000
    end
    text = string.format(limb < 3 and '%09d' or '%d', rest) .. text
  end
  return sign .. string.match(text, '^0*(%d+)$')
end
