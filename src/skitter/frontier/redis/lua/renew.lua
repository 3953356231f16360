-- renew: push the deadlines of what is still current, and the worker's own.
--
--   job, workers, RUN:holds (written). RUN:deadlines stays as it is: it may be early
--
-- ARGV: time, worker, then for each lease: its key, its epoch. Answers a text of 1 and 0.

if not load_job() then return false end
call('ZADD', BASE .. 'workers', now, ARGV[2])
local keys, answer = {}, {}
for place = 3, #ARGV, 2 do keys[#keys + 1] = ARGV[place] end
for place, hold in ipairs(load_holds(keys)) do
  local current = hold and hold[EPOCH] == tonumber(ARGV[2 + place * 2]) and hold[WORKER] == ARGV[2]
  answer[place] = current and '1' or '0'
  if current then
    hold[DEADLINE] = now + S.lease_seconds
    save_hold(keys[place], hold)
  end
end
close()
return table.concat(answer)
