-- tell_intake: what a reader has read.
--
--   job, RUN:intakes, RUN:intake_marks (written)
--
-- ARGV: time, source, owner, seconds that a reader counts as alive, mark, read, added, dead letters, backlog or -1, lag or
-- -1, why it is paused, what it waits for. Answers 0 if it is no reader any more.

if not load_job() then return false end
local source, owner = ARGV[2], ARGV[3]
local intake = load_intake(source)
local mine = intake and reader_of(intake, owner)
if mine then
  forget_dead_readers(intake, owner)
  mine[R_UNTIL] = now + tonumber(ARGV[4])
  for count = 0, 2 do mine[R_READ + count] = tonumber(ARGV[6 + count]) end
  mine[R_PAUSED], mine[R_TROUBLE] = ARGV[11], ARGV[12]
  intake[I_BACKLOG], intake[I_LAG] = tonumber(ARGV[9]), tonumber(ARGV[10])
  save_intake(source, intake)
  if ARGV[5] ~= '' then call('HSET', RUN .. 'intake_marks', source, ARGV[5]) end
end
close()
return mine and 1 or 0
