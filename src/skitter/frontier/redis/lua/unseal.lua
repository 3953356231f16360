-- unseal: a shard takes requests again. The lead has broken the seal before (break_seal.lua).
--
--   job (written)
--
-- ARGV: time, run, the newest seal that the lead has broken.

if not load_job() then return false end
if J.run == tonumber(ARGV[2]) and J.sealed ~= 0 and J.sealed <= tonumber(ARGV[3]) and J.state ~= 'finished' then
  J.sealed = 0
  save_job()
end
return 1
