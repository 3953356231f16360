-- change_settings: the run goes on with other settings.
--
--   job, begun (read, written), spec (written), hosts (as close does)
--
-- ARGV: time, version of the spec that the client has changed, spec, settings, token of the call.
-- Answers "changed" and the job; "again" when the spec was changed meanwhile, "finished" when the job is.

if not load_job() then return false end
local stored = call('GET', BASE .. 'begun')
local begun = stored and unpacked(stored) or {'', '', 0}
-- Sent again: it acts once.
if begun[4] == ARGV[5] then return {'changed', call('GET', KEYS[1])} end
if J.spec_version ~= tonumber(ARGV[2]) then return {'again', ''} end
if J.state == 'finished' then return {'finished', ''} end
pace.use_settings(unpacked(ARGV[4]))
J.spec_version = J.spec_version + 1
if J.shards then
  J.allotted = math.min(J.allotted, J.done + J.leased)
  changed()
end
begun[4] = ARGV[5]
call('SET', BASE .. 'spec', ARGV[3])
call('SET', BASE .. 'begun', pack(begun))
close()
return {'changed', call('GET', KEYS[1])}
