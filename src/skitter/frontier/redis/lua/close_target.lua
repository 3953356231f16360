-- close_target: close_sink, at the lead of a job in shards.
--
--   job, RUN:targets, RUN:marks (written)
--
-- ARGV: time, target, owner, forget. Answers 1, or 0 for who is not the owner.

if not load_job() then return false end
local target = load_target(ARGV[2])
if not target or target[T_OWNER] ~= ARGV[3] then return 0 end
if ARGV[4] == '1' then
  call('HDEL', RUN .. 'targets', ARGV[2])
  call('HDEL', RUN .. 'marks', ARGV[2])
else
  target[T_OWNER], target[T_OWNED_UNTIL] = '', 0
  save_target(ARGV[2], target)
end
save_job()
return 1
