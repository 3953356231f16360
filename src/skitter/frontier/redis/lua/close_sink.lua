-- close_sink: give the ownership up; with `forget` the job keeps nothing for this target any more.
--
--   job, RUN:sinks, RUN:marks, RUN:items (written)
--
-- ARGV: time, target, owner, forget.

if not load_job() then return false end
local stored = call('HGET', RUN .. 'sinks', ARGV[2])
local sink = stored and unpacked(stored)
if sink and sink[OWNER] == ARGV[3] then
  if ARGV[4] == '1' then
    call('HDEL', RUN .. 'sinks', ARGV[2])
    call('HDEL', RUN .. 'marks', ARGV[2])
    drop_items()
  else
    sink[OWNER], sink[OWNED_UNTIL] = '', 0
    call('HSET', RUN .. 'sinks', ARGV[2], pack(sink))
  end
end
close()
return 1
