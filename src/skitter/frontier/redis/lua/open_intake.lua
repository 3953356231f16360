-- open_intake: become a reader of an intake, which is open from now on.
--
--   job, RUN:intakes (written), RUN:intake_marks (read)
--
-- ARGV: time, source, owner, seconds that a reader counts as alive, alone.
-- Answers {the mark}; an empty answer if it wants to be alone and is not.

if not load_job() then return false end
local source, owner = ARGV[2], ARGV[3]
local intake = load_intake(source)
for _, reader in ipairs(ARGV[5] == '1' and intake and intake[I_READERS] or {}) do
  if reader[R_OWNER] ~= owner and reader[R_UNTIL] > now then
    close()
    return {}
  end
end
if not intake or intake[I_CLOSED] then J.intakes = (J.intakes or 0) + 1 end
intake = intake or {false, 0, 0, 0, -1, -1, {}}
forget_dead_readers(intake, owner)
local mine, readers = reader_of(intake, owner), intake[I_READERS]
if not mine then
  mine = {owner, 0, 0, 0, 0, '', ''}
  readers[#readers + 1] = mine
end
mine[R_UNTIL], intake[I_CLOSED] = now + tonumber(ARGV[4]), false
save_intake(source, intake)
if J.state == 'finished' then
  reopen()
  if J.shards then changed() end
end
close()
return {call('HGET', RUN .. 'intake_marks', source) or ''}
