-- leave_intake: a reader stops reading. With `closes` nothing comes any more: the intake is closed unless another reader is
-- alive.
--
--   job, RUN:intakes (written)
--
-- ARGV: time, source, owner, closes. Answers 1 if the intake is closed.

if not load_job() then return false end
local source, owner = ARGV[2], ARGV[3]
local intake = load_intake(source)
if intake then
  forget_readers(intake, function(reader) return reader[R_OWNER] == owner end)
  if ARGV[4] == '1' then
    forget_dead_readers(intake, owner)
    if not intake[I_CLOSED] and #intake[I_READERS] == 0 then
      intake[I_CLOSED] = true
      J.intakes = J.intakes - 1
    end
  end
  save_intake(source, intake)
end
close()
return (not intake or intake[I_CLOSED]) and 1 or 0
