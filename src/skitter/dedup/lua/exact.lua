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

-- The decimal form of a signed id of 8 bytes, which Lua's numbers cannot hold.
function exact.decimal(raw)
  local high, low = struct.unpack('>I4I4', raw)
  local sign = ''
  if high >= 2147483648 then
    sign, high, low = '-', 4294967295 - high, 4294967296 - low
    if low == 4294967296 then high, low = high + 1, 0 end
  end
  -- 2^32 is 4294 millions and 967296: so no product is too large.
  local rest = high * 967296 + low
  local millions = high * 4294 + math.floor(rest / 1000000)
  if millions == 0 then return sign .. string.format('%.0f', rest) end
  return sign .. string.format('%.0f%06.0f', millions, rest % 1000000)
end
