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
    l = got[1] and { key = q, q = 'q:' .. n .. ':', ordered = got[1] ~= '', slots = got[2] == '1', most = tonumber(got[3]), tokens = got[4] == '1',
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

-- The round of a group: this one, or as before; a group that gets its first ready job joins the next one.
local function round_of(l, given, packed)
  if not l.fair then return sub(no_use, 1, 8) end
  if given then return given end
  if packed then return ${place.round.bytes(packed)} end
  l.use = l.use or call('HGET', l.key .. 'l', 'use') or no_use
  return struct.pack('>I8', ${use.round(l.use)} + 1)
end

local function write(command, key, list)
  if #list > 0 then many(command, key, list, 1, #list) end
end

-- Finds out the places of groups from their jobs. rounds: as bytes; waits: until when they wait for a token, in µs, 0 = they
-- do not; false = as before. The state of a group: it is open (o: in the set p), busy (b: in f) or waits for a token
-- (w: in w).
local function place(l, groups, rounds, waits)
  local old, sets = mget(l.q .. 'k', groups), { o = 'p', b = 'f', w = 'w' }
  local gone, places, from, to = {}, {}, { o = {}, b = {}, w = {} }, { o = {}, b = {}, w = {} }
  for k = 1, #groups do
    local group, packed, wait = groups[k], old[k], waits[k]
    local first, was, state, new = first_of(l, group, 1)[1], packed and sub(packed, -1), nil, nil
    if first then
      state = 'o'
      if wait and wait > 0 or not wait and was == 'w' then
        state = 'w'
      elseif l.most > 0 and count_of(l.key .. 's', group) >= l.most then
        state = 'b'
      end
      first = sub(first, -${ready_bytes})
      new = ${ready.order(first)} .. round_of(l, rounds[k], packed) .. ${ready.seq(first)} .. state
      local list = to[state]
      if state == 'b' or state == 'w' and wait or new ~= packed and state == 'o' then
        list[#list + 1] = state == 'w' and text(wait) or 0
        list[#list + 1] = state == 'o' and sub(new, 1, ${place_bytes}) .. group or group
      end
      if new ~= packed then
        places[#places + 1] = group
        places[#places + 1] = new
      end
    elseif packed then
      gone[#gone + 1] = group
    end
    if packed and (state ~= was or was == 'o' and new ~= packed) then
      from[was][#from[was] + 1] = was == 'o' and sub(packed, 1, ${place_bytes}) .. group or group
    end
  end
  for state, set in pairs(sets) do
    write('ZREM', l.q .. set, from[state])
    write('ZADD', l.q .. set, to[state])
  end
  write('HDEL', l.q .. 'k', gone)
  write('HSET', l.q .. 'k', places)
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
  local l = { key = P .. 'q:' .. n .. ':', q = 'q:' .. n .. ':', fair = A[from] == '1', most = tonumber(A[from + 1]) }
  local groups, rounds, waits = {}, {}, {}
  for k = from + 2, to, 3 do
    local i = #groups + 1
    groups[i], rounds[i], waits[i] = A[k], A[k + 1] ~= '' and A[k + 1], tonumber(A[k + 2]) or false
  end
  place(l, groups, rounds, waits)
end

