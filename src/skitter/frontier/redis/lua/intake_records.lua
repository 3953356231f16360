-- What the scripts of intakes share (scripts.py puts it before open_intake, tell_intake, leave_intake and close_intake).
--
-- The record of an intake (IntakeRecord in model/intake.py):
--   {closed, read, added, dead letters, backlog or -1, lag or -1, readers}: the counts are those of readers that are gone
-- and of a reader: {owner, alive until, read, added, dead letters, why it is paused, what it waits for}

local I_CLOSED, I_READ, I_BACKLOG, I_LAG, I_READERS = 1, 2, 5, 6, 7
local R_OWNER, R_UNTIL, R_READ, R_PAUSED, R_TROUBLE = 1, 2, 3, 6, 7

local function load_intake(source)
  local stored = call('HGET', RUN .. 'intakes', source)
  return stored and unpacked(stored)
end

local function save_intake(source, intake)
  call('HSET', RUN .. 'intakes', source, pack(intake))
end

-- Forget the readers that a function names, and keep their counts.
local function forget_readers(intake, is_gone)
  local kept = {}
  for _, reader in ipairs(intake[I_READERS]) do
    if is_gone(reader) then
      for count = 0, 2 do intake[I_READ + count] = intake[I_READ + count] + reader[R_READ + count] end
    else
      kept[#kept + 1] = reader
    end
  end
  intake[I_READERS] = kept
end

local function forget_dead_readers(intake, owner)
  forget_readers(intake, function(reader) return reader[R_OWNER] ~= owner and reader[R_UNTIL] <= now end)
end

local function reader_of(intake, owner)
  for _, reader in ipairs(intake[I_READERS]) do
    if reader[R_OWNER] == owner then return reader end
  end
end
