-- Limits at the claim (core/queues/claim_limits.h): the places of groups. This part is placed before scripts that load or
-- store jobs of queues with limits, and is short, because transactions contain it; unit/limits.c lists the keys. The
-- rules are outside: here are only the first ready job of a group, how many of its jobs run, and whether these are fewer
-- than its limit.
local after = string.rep('\255', ${ready_bytes} + 1)
local no_use = string.rep('\0', ${use_bytes})
local limited = {}

-- The limits of a queue, as far as scripts need them; false = it has none.
local function limits_of(n)
  local l = limited[n]
  if l == nil then
    local q = P .. 'q:' .. n .. ':'
    local got = call('HMGET', q .. 'l', 'order', 'slots', 'most', 'tokens', 'fair', 'use')
    l = got[1] and { key = q, ordered = got[1] ~= '', slots = got[2] == '1', most = tonumber(got[3]), tokens = got[4] == '1',
      fair = got[5] == '1', use = got[6] or no_use } or false
    limited[n] = l
  end
  return l
end

-- How the members of a group begin in sorted sets.
local function own(group)
  return struct.pack('>I2', #group) .. group
end

local function count_of(key, group)
  local begin = own(group)
  return call('ZLEXCOUNT', key, '[' .. begin, '(' .. begin .. after)
end

-- The first members of a group.
local function first_of(l, group, most)
  local begin = own(group)
  return call('ZRANGEBYLEX', l.key .. 'r', '[' .. begin, '(' .. begin .. after, 'LIMIT', 0, most)
end

-- The state of a group: it is open (o: in the set p), busy (b: in f) or waits for a token (w: in w).
local function leave(l, group, packed)
  local state = sub(packed, -1)
  if state == 'o' then
    call('ZREM', l.key .. 'p', sub(packed, 1, ${place_bytes}) .. group)
  else
    call('ZREM', l.key .. (state == 'b' and 'f' or 'w'), group)
  end
end

-- The round of a group: this one, or as before; a group that gets its first ready job joins the next one.
local function round_of(l, given, packed)
  if not l.fair then return sub(no_use, 1, 8) end
  if given then return given end
  if packed then return ${place.round.bytes(packed)} end
  l.use = l.use or call('HGET', l.key .. 'l', 'use') or no_use
  return struct.pack('>I8', ${use.round(l.use)} + 1)
end

-- Finds out the place of a group from its jobs. round: as bytes; wait: until when it waits for a token, in µs, 0 = it
-- does not; nil = as before.
local function place(l, group, round, wait)
  local packed = call('HGET', l.key .. 'k', group)
  local first = first_of(l, group, 1)[1]
  if not first then
    if packed then
      leave(l, group, packed)
      call('HDEL', l.key .. 'k', group)
    end
    return
  end
  first = sub(first, -${ready_bytes})
  local state = 'o'
  if wait and wait > 0 or not wait and packed and sub(packed, -1) == 'w' then
    state = 'w'
  elseif l.most > 0 and count_of(l.key .. 's', group) >= l.most then
    state = 'b'
  end
  local new = ${ready.order(first)} .. round_of(l, round, packed) .. ${ready.seq(first)}
  if new .. state ~= packed then
    if packed and (state == 'o' or state ~= sub(packed, -1)) then leave(l, group, packed) end
    call('HSET', l.key .. 'k', group, new .. state)
    if state == 'o' then call('ZADD', l.key .. 'p', 0, new .. group) end
  end
  if state == 'b' then call('ZADD', l.key .. 'f', 0, group) end
  if state == 'w' and wait then call('ZADD', l.key .. 'w', text(wait), group) end
end

-- Checks of a store, see guard. Slots that are in use: queue, whether those of a group, group, and how many there may
-- be ...
function guard.SLOTS(from, to)
  for k = from, to, 4 do
    local q = P .. 'q:' .. A[k] .. ':'
    local used = A[k + 1] == '' and call('ZCARD', q .. '${running}') or count_of(q .. 's', A[k + 2])
    if used > tonumber(A[k + 3]) then return false end
  end
  return true
end

-- Buckets of groups: queue, group, when it was full ...
function guard.TOKENS(from, to)
  for k = from, to, 3 do
    if (tonumber(call('ZSCORE', P .. 'q:' .. A[k] .. ':t', A[k + 1]) or '0')) ~= tonumber(A[k + 2]) then return false end
  end
  return true
end

-- Buckets of groups: group, when it is full ... Of those that are full at a time before, which comes first, some go.
function special.TOKENS(n, from, to)
  local key = P .. 'q:' .. n .. ':t'
  local old = call('ZRANGEBYSCORE', key, '-inf', A[from], 'LIMIT', 0, to - from + 10)
  if #old > 0 then call('ZREM', key, unpack(old)) end
  for k = from + 1, to, 2 do call('ZADD', key, A[k + 1], A[k]) end
end

-- Groups of which jobs have changed: whether the queue is fair, how many jobs of a group may run; group, round or '', until
-- when it waits for a token or '' ...
function special.PLACE(n, from, to)
  local l = { key = P .. 'q:' .. n .. ':', fair = A[from] == '1', most = tonumber(A[from + 1]) }
  for k = from + 2, to, 3 do place(l, A[k], A[k + 1] ~= '' and A[k + 1], tonumber(A[k + 2])) end
end

