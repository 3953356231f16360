-- ARGV: key, events a second, burst, seconds that may be waited ('': any). The seconds to wait, or nil: too many.
-- As cluster/gcra.py.
local key = P .. 'rate:' .. ARGV[1]
local now, interval = now_micros(), 1000000 / tonumber(ARGV[2])
local due = math.max(tonumber(redis.call('GET', key) or '0'), now)
local delay = math.max(0, due - (tonumber(ARGV[3]) - 1) * interval - now)
if ARGV[4] ~= '' and delay > tonumber(ARGV[4]) * 1000000 then return nil end
redis.call('SET', key, string.format('%.0f', due + interval), 'PX', millis((due + interval - now) / 1000 + 1))
return string.format('%.6f', delay / 1000000)
