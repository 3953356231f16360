-- remove_leftovers: removes what an earlier job of the same name has left in a shard, before the shard takes anything.
--
--   job (read), the keys named (removed)
--
-- Two clients may sweep at the same time: whoever is late finds a shard that is in use, and removes nothing.
--
-- ARGV: time, keys...

if not load_job() then return false end
if J.dirty then
  for place = 2, #ARGV do
    if ARGV[place] ~= KEYS[1] then call('UNLINK', ARGV[place]) end
  end
end
return 1
