-- mend_lease: makes the indexes of a lease anew, or ends one that is of nothing.
--
--   job, RUN:holds, RUN:held:WORKER, RUN:alone, RUN:deadlines, RUN:staged:EPOCH (written)
--
-- ARGV: time, step, lease key; for "unstage" the epoch.
--   "index"     it stands among the leases of its worker, and is looked at in time
--   "row"       the row of its request says that it is leased, and of which host
--   "renumber"  it gets an epoch of its own
--   "mark"      it knows that something is staged
--   "drop"      it ends; the worker's index too
--   "unstage"   what is staged for nobody is removed: it was never seen by anyone

if not load_job() then return false end
local step, key = ARGV[2], ARGV[3]
local hold = step ~= 'unstage' and load_holds({key})[1]

local steps = {
  index = function()
    call('SADD', RUN .. 'held:' .. hold[WORKER], key)
    if hold[ALONE] then call('SADD', RUN .. 'alone', hold[WORKER]) end
    call('ZADD', RUN .. 'deadlines', 'LT', hold[DEADLINE], hold[WORKER])
  end,
  row = function()
    local row = row_of(hold)
    row[PLACE] = AT_LEASED
    hold[HOLD_HOST] = row[HOST]
    hold[STORED] = string.sub(hold[STORED], 1, hold[ROW_AT] - 1) .. pack_row(row)
    save_hold(key, hold)
  end,
  renumber = function()
    hold[EPOCH] = J.next_epoch
    J.next_epoch = J.next_epoch + stride()
    save_hold(key, hold)
  end,
  mark = function()
    hold[STAGED] = true
    save_hold(key, hold)
  end,
  drop = function()
    call('HDEL', RUN .. 'holds', key)
    call('SREM', RUN .. 'held:' .. hold[WORKER], key)
    if hold[ALONE] then call('SREM', RUN .. 'alone', hold[WORKER]) end
  end,
}
if step == 'unstage' then
  call('DEL', RUN .. 'staged:' .. key)
elseif hold then
  steps[step]()
end
save_job()
return 1
