-- allot: a shard's part of max_pages. Without a number the shard keeps what it has done and begun, and no more.
--
--   job (written)
--
-- ARGV: time, run, number of the allotment or nothing, pages. Answers number and pages of the allotment that holds.

if not load_job() then return false end
if J.run == tonumber(ARGV[2]) then
  if ARGV[3] == '' then
    J.allotted = math.min(J.allotted, J.done + J.leased)
  elseif tonumber(ARGV[3]) > J.allotment then
    J.allotment, J.allotted = tonumber(ARGV[3]), tonumber(ARGV[4])
  end
  save_job()
end
return {J.allotment, J.allotted}
