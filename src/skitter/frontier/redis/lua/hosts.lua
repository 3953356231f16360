-- hosts: a piece of the list of hosts.
--
--   job, hosts (read)
--
-- ARGV: time, where to go on, how many, which of them ("all", "paused", "blocked", "given_up").
-- Answers the time, where to go on ("0": through), {key, told, ...}.

if not load_job() then return false end
local wanted = {
  all = function() return true end,
  paused = function(h) return h[HALT] == HALT_PAUSED end,
  blocked = function(h) return h[BLOCKED_UNTIL] > now end,
  given_up = was_given_up,
}
local is_wanted, told = wanted[ARGV[4]], {}
local scanned = call('HSCAN', BASE .. 'hosts', ARGV[2], 'COUNT', ARGV[3])
local found = scanned[2]
for place = 1, #found, 2 do
  if is_wanted(read_host(found[place + 1], found[place])) then
    told[#told + 1] = found[place]
    told[#told + 1] = tell_host(found[place], found[place + 1])
  end
end
return {text(now), scanned[1], told}
