-- Adds a batch to a stream, or what it lacks of one.
--
-- KEYS[1]  the stream
-- KEYS[2]  hash, what one run has written: "batch" -> number of its last batch, and "item …" -> "" for each of its items
-- ARGV     number of the batch, MAXLEN (0: none), then for each message: position, item, key, body
--
-- Promise: the entries and the note of them are written at once. A batch that comes again, longer perhaps, adds the items
-- that are not noted. Ids grow for ever, whoever else writes to the stream and whatever its clock does.
-- Answers how many were added; -1: the server has lost the batch before, or never had it.

local stream, state = KEYS[1], KEYS[2]
local number, maxlen = tonumber(ARGV[1]), tonumber(ARGV[2])

local noted = tonumber(redis.call('HGET', state, 'batch'))
if not noted or noted < number - 1 then
  return -1
end
-- A full server refuses a script at its first write that takes memory, and only if nothing was written before: DEL
-- would open the door for the rest.
redis.call('HSET', state, 'batch', noted)
if noted < number then
  redis.call('DEL', state)
  redis.call('HSET', state, 'batch', ARGV[1])
end

local clock = redis.call('TIME')
local milliseconds = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
if redis.call('EXISTS', stream) == 1 then
  local about = redis.call('XINFO', 'STREAM', stream)
  for place = 1, #about, 2 do
    if about[place] == 'last-generated-id' then
      milliseconds = math.max(milliseconds, tonumber(string.match(about[place + 1], '^%d+')) + 1)
    end
  end
end

local added = 0
for place = 3, #ARGV, 4 do
  local item = 'item ' .. ARGV[place + 1]
  if redis.call('HEXISTS', state, item) == 0 then
    local id = string.format('%.0f-%s', milliseconds, ARGV[place])
    if maxlen > 0 then
      redis.call('XADD', stream, 'MAXLEN', '~', maxlen, id, 'key', ARGV[place + 2], 'item', ARGV[place + 3])
    else
      redis.call('XADD', stream, id, 'key', ARGV[place + 2], 'item', ARGV[place + 3])
    end
    redis.call('HSET', state, item, '')
    added = added + 1
  end
end
return added
