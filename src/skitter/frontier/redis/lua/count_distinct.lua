-- count_distinct: merge registers of a HyperLogLog of the URLs that were done.
--
--   job (read), distinct (written)
--
-- ARGV: time, registers that have grown: two bytes for the place and one for the rank each.

if not load_job() then return false end
local key, changes = BASE .. 'distinct', ARGV[2]
local registers = call('GET', key)
for first = 1, #changes, CHANGE_BYTES do
  local high, low, rank = string.byte(changes, first, first + 2)
  local place = high * 256 + low
  -- The longest one first makes the rest: what is beyond the end of a string is filled with zeros.
  if not registers then
    call('SETRANGE', key, REGISTERS - 1, '\0')
    registers = call('GET', key)
  end
  if rank > string.byte(registers, place + 1) then call('SETRANGE', key, place, string.char(rank)) end
end
return 1
