-- ban_proxy: a proxy is banned by hand, at a host or everywhere, or its bans end.
--
--   job, RUN:proxies, RUN:host_proxies (written)
--
-- ARGV: time, its id, host key or nothing, seconds; 0 ends its bans. Answers 1; 0 if there is no such proxy.

if not load_job() then return false end
local id, key, seconds = ARGV[2], ARGV[3], tonumber(ARGV[4])
local p = proxies.change(id)
if not p then return 0 end
if seconds == 0 then
  proxies.unban(id, key)
elseif key ~= '' then
  proxies.ban_for(proxies.change_at(key), id, seconds)
else
  p[P_BANNED_UNTIL] = now + seconds
end
close()
return 1
