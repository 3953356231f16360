-- register_proxy: a proxy joins the pool of the job, or stays for longer.
--
--   job, RUN:proxies (written)
--
-- ARGV: time, its id, its URL, its owner, seconds after which it is gone or 0. Answers 1; 0 if there are too many.

if not load_job() then return false end
local is_taken = proxies.register(ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]))
close()
return is_taken and 1 or 0
