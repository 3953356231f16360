-- open_target: open_sink, at the lead of a job in shards. The one record of a target says where it is in every shard's
-- outbox, and which items of which shards come next: whoever reads them after a crash gets them in the same order.
--
--   job, RUN:targets (written), RUN:marks (read)
--
-- ARGV: time, target, owner, seconds that an ownership lasts.
-- Answers positions or nothing, plan, reigns of each shard, the reign of this server, mark, closed, items rejected so far, what the
-- owner waited for; an empty answer while another owner's time has not run out.

if not load_job() then return false end
local target = targets.load(ARGV[2])
if not target then
  -- The other shards follow, and keep items for it from then on.
  target = targets.new()
  changed()
end
if target[T_OWNER] ~= '' and target[T_OWNER] ~= ARGV[3] and target[T_OWNED_UNTIL] > now then return {} end
target[T_OWNER], target[T_OWNED_UNTIL] = ARGV[3], now + tonumber(ARGV[4])
targets.save(ARGV[2], target)
save_job()
return {
  target[VECTOR], target[PLAN], target[T_REIGNS], reign(), call('HGET', RUN .. 'marks', ARGV[2]) or '',
  target[T_CLOSED] and 1 or 0, target[T_REJECTED] or 0, target[T_TROUBLE] or '',
}
