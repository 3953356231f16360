-- A job in shards: each is a whole little frontier of the hosts that belong to it, with a record of its own. Shard 0
-- is the lead: its record is the truth about the run, the state, the settings, and what belongs to the job as a whole.
--
-- What a shard's record has besides (as_shard in 1_job.lua):
--
--   shards, shard    how many there are, and which one this is; a job that is not split has neither
--   version          of run, state and settings: the lead counts it up, the others follow (follow.lua)
--   changes          counts up when any request changes its place
--   sealed           the seal that is on this shard, 0 for none: it takes no new requests until it is broken (seal.lua)
--   seal, sealing    at the lead: the newest seal, and whether it may still end the job
--   allotted         how many pages may end done here, and
--   allotment        the number of the allotment that said so (share.lua)
--   given            at the lead: {allotment, pages} of each shard, which it never has more than
--   permits          how many host keys are permitted in the job (permit_hosts.lua)
--   complete         at the lead: every shard has heard of this run
--   dirty            the shard is new, and what an earlier job has left there is not swept out yet: it takes nothing
--   reigns, replid   the newest reigns of the server, and which one is the newest (note_reign in 1_job.lua)
--   foreign          how many links other shards have ever added here
--   relied           {shard, reigns, foreign} each: pages of this shard have ended with links that the other shard had
--                    taken in these reigns, the last of them as its link of this number (commit.lua)

local VECTOR, PLAN, T_CLOSED, T_OWNER, T_OWNED_UNTIL, T_REIGNS, T_REJECTED, T_TROUBLE = 1, 2, 3, 4, 5, 6, 7, 8

-- The lead decides something that all shards shall follow.
local function changed()
  J.version, J.sealing = J.version + 1, false
end

local function unfinished()
  return J.queued + J.delayed + J.leased
end

local function is_idle()
  return unfinished() == 0 and not awaits_requests()
end

local function is_sealed()
  return J.shards and (J.sealed ~= 0 or J.state == 'finished')
end

-- ---- what a server that was promoted has lost

-- The newest reigns of this shard as a text: the number of the first and their names, NUMBER:NAME.NAME.NAME.
local function list_reigns()
  local names = {}
  for place, one in ipairs(J.reigns) do names[place] = one[R_NAME] end
  return #names > 0 and J.reigns[1][R_NUMBER] .. ':' .. table.concat(names, '.') or ''
end

-- Up to which position, or up to how many links of other shards (`column`), this shard still has what it had when it told
-- of these reigns. Nothing is certain of a history that has no reign in common with what is noted here.
local function kept_since(told, column, present)
  local first, names = string.match(told, '^(%d+):(.*)$')
  if not first or #J.reigns == 0 then return present end
  local known, number = {}, tonumber(first)
  for name in string.gmatch(names, '%x+') do
    known[number] = name
    number = number + 1
  end
  for place = #J.reigns, 1, -1 do
    if known[J.reigns[place][R_NUMBER]] == J.reigns[place][R_NAME] then
      local following = J.reigns[place + 1]
      return following and following[column] or present
    end
  end
  return 0
end

-- Pages of this shard end whose links others have taken: {shard, its reigns then, how many links it had taken} each.
local function rely_on(others)
  for _, other in ipairs(others) do
    local known
    for _, relied in ipairs(J.relied) do
      if relied[1] == other[1] and relied[2] == other[2] then known = relied end
    end
    if known then
      known[3] = math.max(known[3], other[3])
    else
      J.relied[#J.relied + 1] = other
    end
  end
end

-- ---- targets of the whole job: {position in each shard or false, shards and numbers of items to come next, closed,
-- owner, owned until, reigns of each shard when the positions were given, items rejected, what its owner waits for}

local targets = {}

function targets.new()
  return {false, {}, false, '', 0, {}, 0, ''}
end

function targets.load(name)
  local stored = call('HGET', RUN .. 'targets', name)
  return stored and unpacked(stored)
end

function targets.save(name, target)
  call('HSET', RUN .. 'targets', name, pack(target))
end

-- Whether every target is closed and holds all items that there have been.
function targets.have_all(items)
  local stored = call('HGETALL', RUN .. 'targets')
  for place = 2, #stored, 2 do
    local target, held = unpacked(stored[place]), 0
    if not target[T_CLOSED] or not target[VECTOR] then return false end
    for _, position in ipairs(target[VECTOR]) do held = held + position end
    if held < items then return false end
  end
  return true
end

-- ---- what the client is told with every answer

local function backlog()
  local most = 0
  for _, sink in pairs(load_sinks()) do most = math.max(most, J.position - sink[POSITION]) end
  return most
end

-- Of the worker that asked: how many leases it holds here, whether it is alone with one, whether it seeds.
local function told_of_worker()
  if not asked then return false end
  local seeder = J.seeding and load_holds({SEED_KEY})[1]
  return {
    call('SCARD', RUN .. 'held:' .. asked), call('SISMEMBER', RUN .. 'alone', asked),
    seeder and seeder[WORKER] == asked and 1 or 0,
  }
end

-- 0: over, 1: nobody has it, 2: somebody has.
local function told_of_seeding()
  if not J.seeding then return 0 end
  return 1 + call('HEXISTS', RUN .. 'holds', SEED_KEY)
end

-- Until something may be ready, or at once while a host's queue is being buried, or hosts are to be looked at: no other
-- shard does it.
local function due_seconds()
  if in_haste or J.reschedule_after or call('EXISTS', RUN .. 'given_up') == 1 then return 0 end
  return math.min(first_score('delayed'), first_score('waiting'))
end

-- The answer of a script with the status of its shard (ShardStatus in shards/shard.py has the fields). The first word
-- tells it from an answer without one, which a job that is not split gives.
local function with_status(answer)
  local of_needs, alone = '', 0
  if J.needy then of_needs, alone = needs.ready_tops() end
  return {'status', answer, {
    J.version, J.run, J.state, unfinished(), call('HLEN', RUN .. 'holds'), J.done, J.leased, J.allotted,
    S.max_pages or -1, told_of_seeding(), J.changes, J.position, backlog(), S.max_outbox_items, J.permits,
    ready_top('tops', 'ready:'), call('ZCARD', RUN .. 'suspects') + alone, told_of_worker(), goes_first and 1 or 0, short and 1 or 0,
    text(due_seconds()), J.sealed, string.sub(J.secret, 1, 8), of_needs,
    J.intakes or 0, list_reigns(), J.foreign,
  }}
end
