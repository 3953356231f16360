-- ARGV: path. The value and the version (nil: there is no such key), and the names of the children.
local entry = redis.call('HMGET', P .. 'entry:' .. ARGV[1], 'value', 'version')
return {entry[1], entry[2], redis.call('ZRANGE', P .. 'children:' .. ARGV[1], 0, -1)}
