-- claim_close: on_close of a finished run is called by one owner at a time.
--
--   job (read, written)
--
-- ARGV: time, owner, for how many seconds it is the owner's, whether it was called. Answers mine, others or none.

if not load_job() then return false end
if J.state ~= 'finished' or not S.on_close or J.closed then return 'none' end
local closing = J.closing
if closing and closing[1] ~= ARGV[2] and closing[2] > now then return 'others' end
local answer = 'mine'
if ARGV[4] == '1' then
  J.closing, J.closed, answer = nil, true, 'none'
else
  J.closing = {ARGV[2], now + tonumber(ARGV[3])}
end
save_job()
return answer
