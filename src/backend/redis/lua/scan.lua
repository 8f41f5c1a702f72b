-- A step through jobs in the order of their sequence. Arguments: the time or '', queue or '0',
-- lowest and highest sequence, whether newest first, mask of states, how many to examine. Returns
-- the time, the sequence that was reached ('' = the end), jobs with their rows, queues.
local now, n, low, high, newest, states, limit = clock(arg()), arg(), count(), count(), arg() == '1', count(), count()
local rows = {}

local function wanted(state)
  return math.floor(states / 2 ^ state) % 2 == 1
end

local function give(seqs)
  local got = mget('row', seqs)
  for k = 1, #seqs do
    local row = got[k]
    if row and wanted(${job.state(row)}) then
      rows[#rows + 1] = seqs[k]
      rows[#rows + 1] = row
      give_queue(queue_of(row))
    end
  end
end

local function answer(reached)
  return { text(now), reached, rows, queues }
end

-- If few states with few jobs are wanted: by their indexes, sorted here.
local function by_states()
  local total, keys = 0, {}
  if wanted(${scheduled}) or wanted(${ready}) then return nil end
  for state = ${running}, ${blocked} do
    if wanted(state) then
      keys[#keys + 1] = P .. 'q:' .. n .. ':' .. state
      total = total + call('ZCARD', keys[#keys])
    end
  end
  if total > 5000 then return nil end
  local found = {}
  for _, key in ipairs(keys) do
    for _, seq in ipairs(call('ZRANGE', key, 0, -1)) do
      local v = ${seq.number(seq)}
      if v >= low and v <= high then found[#found + 1] = v end
    end
  end
  table.sort(found, newest and function(a, b) return a > b end or nil)
  local seqs = {}
  for k = 1, min(#found, limit) do seqs[k] = struct.pack('>I8', found[k]) end
  give(seqs)
  return answer(#found > limit and text(found[limit]) or '')
end

local function by_queue()
  local key = P .. 'q:' .. n .. ':all'
  local seqs = newest and call('ZREVRANGEBYSCORE', key, text(high), text(low), 'LIMIT', 0, limit)
      or call('ZRANGEBYSCORE', key, text(low), text(high), 'LIMIT', 0, limit)
  give(seqs)
  return answer(#seqs == limit and text(${seq.number(seqs[#seqs])}) or '')
end

-- In all queues: by the parts of 1024 sequences that have jobs.
local function by_parts()
  local first, last = math.floor(low / 1024), math.floor(high / 1024)
  local parts = newest and call('ZREVRANGEBYSCORE', P .. 'parts', text(last), text(first), 'LIMIT', 0, 3)
      or call('ZRANGEBYSCORE', P .. 'parts', text(first), text(last), 'LIMIT', 0, 3)
  for k = 1, min(#parts, 2) do
    local start, seqs = tonumber(parts[k]) * 1024, {}
    for j = 0, 1023 do
      local v = newest and start + 1023 - j or start + j
      if v >= low and v <= high then seqs[#seqs + 1] = struct.pack('>I8', v) end
    end
    give(seqs)
  end
  if #parts < 3 then return answer('') end
  local edge = tonumber(parts[2]) * 1024
  return answer(text(newest and edge or edge + 1023))
end

if n == '0' then return by_parts() end
return by_states() or by_queue()
