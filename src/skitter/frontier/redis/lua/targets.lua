-- targets: for the report of a job in shards; at the lead.
--
--   job, RUN:targets (read)
--
-- ARGV: time. Answers now, and for each target its name, positions or nothing, closed, owner, owned until,
-- items rejected so far, what its owner waits for.

if not load_job() then return false end
local told, stored = {}, call('HGETALL', RUN .. 'targets')
for place = 1, #stored, 2 do
  local target = unpacked(stored[place + 1])
  told[#told + 1] = {
    stored[place], target[VECTOR], target[T_CLOSED] and 1 or 0, target[T_OWNER], text(target[T_OWNED_UNTIL]),
    target[T_REJECTED] or 0, target[T_TROUBLE] or '',
  }
end
return {text(now), told}
