-- expiring: ids in generations, each of which goes as a whole; a generation is an exact set (exact.lua).
--
--   PREFIX .. NUMBER .. ':' .. N   set   ids in decimal: bucket N of a generation
--
-- A record has the span of a generation in seconds, how many are kept besides the one that is filled, the number of
-- the present one, and the generations, oldest first:
-- {span, kept, mean, number, generations = {{number, buckets, round, mean, count}, ...}}.

local expiring = {}
-- Buckets that one call removes of a generation that is too old: no call is long.
expiring.piece = 200

-- A clock that was set back changes nothing: what is added meanwhile is kept longer, and nothing is forgotten too soon.
function expiring.read_clock(record, now)
  record.number = math.max(record.number, math.floor(now / record.span))
end

function expiring.is_alive(record, generation)
  return generation.number >= record.number - record.kept
end

-- Begin the present generation, if it has not begun; remove a piece of the oldest, if it is too old.
function expiring.turn(record, prefix)
  local list = record.generations
  if #list == 0 or list[#list].number < record.number then
    local newest = exact.new(record.mean)
    newest.number = record.number
    list[#list + 1] = newest
  end
  local oldest = list[1]
  if not expiring.is_alive(record, oldest) then
    local first = math.max(0, oldest.buckets - expiring.piece)
    for bucket = first, oldest.buckets - 1 do redis.call('UNLINK', prefix .. oldest.number .. ':' .. bucket) end
    oldest.buckets = first
    if first == 0 then table.remove(list, 1) end
  end
end

function expiring.has(record, prefix, id)
  local list = record.generations
  for place = #list, 1, -1 do
    local generation = list[place]
    if not expiring.is_alive(record, generation) then return false end
    if exact.has(generation, prefix .. generation.number .. ':', id) then return true end
  end
  return false
end

-- Whether the id is new. The present generation has begun.
function expiring.add(record, prefix, id)
  if expiring.has(record, prefix, id) then return false end
  local newest = record.generations[#record.generations]
  return exact.add(newest, prefix .. newest.number .. ':', id)
end
