-- take_cookies: cookies of pages of other shards, at the lead.
--
--   job, RUN:jars, RUN:jar_order, RUN:jar_domains (written)
--
-- ARGV: time, run, msgpack: {session, domain, version that is known, cookies} of each page. Answers the version of each jar after
-- it, or 0 if others had changed it; all 0 in another run, and nothing is done.

if not load_job() then return false end
local answer = {}
for place, news in ipairs(unpacked(ARGV[3])) do
  answer[place] = J.run == tonumber(ARGV[2]) and jars.take(news) or 0
end
save_job()
return answer
