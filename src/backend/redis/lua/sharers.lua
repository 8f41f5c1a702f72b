-- Jobs of a queue that share a unique key and are not cancelled. Arguments: queue, its generation,
-- how many to show. Returns their number without the first of each key, and the first of them all.
-- For jobs that may not share a key see unique_widens in core/queues/unique.h.
local n, generation, most = arg(), arg(), count()
local first, sharing, beyond, start = {}, {}, 0, 0
repeat
  local seqs = call('ZRANGE', P .. 'q:' .. n .. ':all', start, start + 999)
  local rows = mget('row', seqs)
  for k = 1, #seqs do
    local row = rows[k]
    local key = row and unique_of(row)
    if key and ${job.state(row)} ~= ${cancelled} and (not waits(${job.state(row)}) or ${job.generation(row)} == generation) then
      local other = first[key]
      if not other then
        first[key] = seqs[k]
      else
        beyond = beyond + 1
        sharing[other] = true
        sharing[seqs[k]] = true
      end
    end
  end
  start = start + 1000
until #seqs < 1000
local numbers = {}
for seq in pairs(sharing) do numbers[#numbers + 1] = ${seq.number(seq)} end
table.sort(numbers)
local out = {}
for k = 1, min(#numbers, most) do
  local seq = struct.pack('>I8', numbers[k])
  out[#out + 1] = seq
  out[#out + 1] = call('HGET', P .. 'row', seq)
  out[#out + 1] = call('HGET', P .. 'err', seq)
end
return { beyond, out }
