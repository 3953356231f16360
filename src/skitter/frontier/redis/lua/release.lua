-- release: work goes back as if it had never been leased, but for the delay of a host that it has touched.
--
--   job, hosts, RUN:holds, RUN:held:WORKER, RUN:requests, RUN:returned:HOST, RUN:suspects (written)
--
-- ARGV: time, late, touched, then for each lease: its key, its epoch.

if not load_job() then return false end
local late, was_touched = ARGV[2] == '1', ARGV[3] == '1'
local keys, over = {}, {}
for place = 4, #ARGV, 2 do keys[#keys + 1] = ARGV[place] end
for place, hold in ipairs(load_holds(keys)) do
  local key = keys[place]
  -- A lease that is named twice is handed back once.
  if hold and hold[EPOCH] == tonumber(ARGV[3 + place * 2]) and not over[key] then
    over[key] = true
    hand_back(key, hold, late, was_touched)
  end
end
close()
return 1
