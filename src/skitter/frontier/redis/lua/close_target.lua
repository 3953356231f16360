-- close_target: close_sink, at the lead of a job in shards.
--
--   job, RUN:targets, RUN:marks, RUN:sinks, RUN:items (written)
--
-- ARGV: time, target, owner, forget. Answers 1, or 0 for who is not the owner. What is forgotten here, the other
-- shards forget when they follow.

if not load_job() then return false end
local target = targets.load(ARGV[2])
if not target or target[T_OWNER] ~= ARGV[3] then return 0 end
if ARGV[4] == '1' then
  call('HDEL', RUN .. 'targets', ARGV[2])
  call('HDEL', RUN .. 'marks', ARGV[2])
  call('HDEL', RUN .. 'sinks', ARGV[2])
  drop_items()
  changed()
else
  target[T_OWNER], target[T_OWNED_UNTIL] = '', 0
  targets.save(ARGV[2], target)
end
save_job()
return 1
