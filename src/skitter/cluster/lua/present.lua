-- ARGV: group. Member and data of each, in turn.
local found = redis.call('HGETALL', data)
for place = 2, #found, 2 do
  found[place] = string.sub(found[place], string.find(found[place], ' ', 1, true) + 1)
end
return found
