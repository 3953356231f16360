-- command_host: an operator pauses, resumes or gives up a host.
--
--   job, hosts (written), and with a host that is given up what bury_piece writes (3_requests.lua)
--
-- ARGV: time, host key, order (model.host.Halt). Answers the order before; -1 if there is no such host.

if not load_job() then return false end
local key, halt, before = ARGV[2], tonumber(ARGV[3]), -1
if call('HEXISTS', BASE .. 'hosts', key) == 1 then
  local h = host_of(key)
  before = h[HALT]
  if h[PHASE] == GIVEN_UP then
    local class = unpacked(call('HGET', RUN .. 'reasons', key))[1]
    -- What a give-up has not buried yet stays queued after any other order. A pause also keeps that of a host that is down.
    if class == GIVEN_UP_CLASS or (halt == HALT_PAUSED and class ~= HOST_BUDGET) then forgive(key, h) end
  end
  budgets.halt(h, halt)
  if halt == HALT_GIVEN_UP then stop(key) end
end
close()
return before
