-- command: pause, resume or stop.
--
--   job (read, written), spec (read), RUN:holds (counted)
--
-- ARGV: time, command, why it stops. Answers the job and its spec.

if not load_job() then return false end
local command, state = ARGV[2], J.state
if command == 'pause' and state == 'running' then
  J.state = 'paused'
elseif command == 'resume' and (state == 'paused' or state == 'stopped' or state == 'draining') then
  J.state, J.ended_at, J.reason = 'running', 0, ''
elseif command == 'stop' and (state == 'running' or state == 'paused') then
  J.state, J.reason = 'draining', ARGV[3]
end
if J.shards and J.state ~= state then changed() end
close()
return {call('GET', KEYS[1]), call('GET', BASE .. 'spec')}
