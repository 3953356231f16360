-- count_bits: how many bits are set in some blocks of the Bloom filter, for the consistency check.
--
--   job, RUN:ended, RUN:filter:S:N (counted)
--
-- ARGV: time, sub-filter, first block, how many blocks.
-- Answers which state of the job this was, the bits by the record, the bits that were counted, and where to go on: sub-filter
-- (0: through) and block.

if not load_job() then return false end
local state, record = redis.sha1hex(call('GET', KEYS[1])), seen.load()
local sub, first, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if not record or not S.layout or not record.items[sub] then return {state, 0, 0, 0, 0} end
local blocks, bits = record.layout[sub].blocks, 0
local last = math.min(first + most, blocks)
for block = first, last - 1 do bits = bits + call('BITCOUNT', RUN .. 'filter:' .. sub .. ':' .. block) end
if last < blocks then return {state, record.ones[sub], bits, sub, last} end
return {state, record.ones[sub], bits, record.items[sub + 1] and sub + 1 or 0, 0}
