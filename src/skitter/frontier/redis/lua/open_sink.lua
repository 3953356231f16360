-- open_sink: become the owner of a target.
--
--   job, RUN:sinks (written), RUN:marks (read)
--
-- ARGV: time, target, owner, seconds that an ownership lasts.
-- Answers position, mark, closed, the server's reign, items rejected so far, what the owner waited for; nothing while another owner's time has not run out.

if not load_job() then return false end
local target, owner = ARGV[2], ARGV[3]
local stored = call('HGET', RUN .. 'sinks', target)
local sink = stored and unpacked(stored) or new_sink()
if sink[OWNER] ~= '' and sink[OWNER] ~= owner and sink[OWNED_UNTIL] > now then
  close()
  return {}
end
sink[OWNER], sink[OWNED_UNTIL] = owner, now + tonumber(ARGV[4])
call('HSET', RUN .. 'sinks', target, pack(sink))
close()
return {sink[POSITION], call('HGET', RUN .. 'marks', target) or '', sink[CLOSED] and 1 or 0, reign(), sink[REJECTED] or 0,
  sink[TROUBLE] or ''}
