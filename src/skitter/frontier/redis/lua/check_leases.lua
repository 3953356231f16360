-- check_leases: which leases are current. Asked before links go to other shards, and a deadline that is near is pushed: the
-- commit comes after.
--
--   job, RUN:holds (written)
--
-- ARGV: time, then for each lease: its key, its epoch. Answers a text of 1 and 0.

if not load_job() then return false end
local keys, answer = {}, {}
for place = 2, #ARGV, 2 do keys[#keys + 1] = ARGV[place] end
for place, hold in ipairs(load_holds(keys)) do
  local current = hold and hold[EPOCH] == tonumber(ARGV[1 + place * 2])
  answer[place] = current and '1' or '0'
  if current and hold[DEADLINE] < now + S.lease_seconds / 3 then
    hold[DEADLINE] = now + S.lease_seconds
    save_hold(keys[place], hold)
  end
end
return table.concat(answer)
