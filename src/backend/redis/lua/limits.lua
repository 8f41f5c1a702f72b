-- Limits at the claim: changes of the limits of queues, and of the order of their jobs. Placed before store.lua, behind
-- places.lua.

-- Forgets the order of a queue.
local function forget(q)
  call('UNLINK', q .. 'r', q .. 'p', q .. 'k', q .. 'w', q .. 'f')
end

-- All groups of these sets find their place again when a claim comes.
local function all_due(q, set)
  if set then
    call('ZUNIONSTORE', q .. 'w', 2, q .. 'w', set, 'WEIGHTS', 1, 0)
    call('UNLINK', set)
  else
    call('ZUNIONSTORE', q .. 'w', 1, q .. 'w', 'WEIGHTS', 0)
  end
end

-- The limits of a queue: its order as a text, '' = by priority and sequence; whether it is fair; whether it has a limit of
-- running jobs, and how many of a group may run, 0 = any number; whether groups have buckets; whether these are full now;
-- whether the queue is new. If the order has changed, it begins empty, and is built step by step (BUILD).
function special.LIMITS(n, from)
  local q = P .. 'q:' .. n .. ':'
  local order, fair, slots, most, tokens, full, fresh = unpack(A, from, from + 6)
  local old = call('HMGET', q .. 'l', 'order', 'most', 'use')
  if not old[1] then call('HINCRBY', P .. 'meta', 'limited', 1) end
  call('HSET', q .. 'l', 'order', order, 'fair', fair, 'slots', slots, 'most', most, 'tokens', tokens)
  if order ~= (old[1] or '') then
    forget(q)
    call('HDEL', q .. 'l', 'at')
    call(order ~= '' and fresh == '' and 'SADD' or 'SREM', P .. 'ordering', n)
  elseif old[2] and most ~= old[2] then
    all_due(q, q .. 'f')
  end
  if full == '1' then
    call('UNLINK', q .. 't')
    if old[3] then call('HSET', q .. 'l', 'use', sub(no_use, 1, 8) .. ${use.round.bytes(old[3])}) end
    all_due(q)
  end
  if most == '0' then call('UNLINK', q .. 's') end
end

-- The queue has no limits any more, or is deleted.
function special.UNLIMIT(n)
  local q = P .. 'q:' .. n .. ':'
  if call('EXISTS', q .. 'l') == 1 then call('HINCRBY', P .. 'meta', 'limited', -1) end
  forget(q)
  call('UNLINK', q .. 'l', q .. 's', q .. 't')
  call('SREM', P .. 'ordering', n)
end

-- Its waiting jobs are gone.
function special.EMPTY(n)
  forget(P .. 'q:' .. n .. ':')
end

-- A step that builds the order of a queue: up to which ready job it has come, '' = it is complete; then job, revision,
-- member ... A job that has changed since then was put in its place by the store that changed it.
function special.BUILD(n, from, to)
  local q, add, seqs = P .. 'q:' .. n .. ':', {}, {}
  if A[from] == '' then
    call('SREM', P .. 'ordering', n)
    call('HDEL', q .. 'l', 'at')
  elseif call('SISMEMBER', P .. 'ordering', n) == 1 then -- otherwise the step is one with slots only
    call('HSET', q .. 'l', 'at', A[from])
  end
  for k = from + 1, to, 3 do seqs[#seqs + 1] = A[k] end
  local rows = mget('row', seqs)
  for k = 1, #seqs do
    local revision = A[from + 3 * k - 1]
    if rows[k] and sub(rows[k], 1, #revision) == revision then
      add[#add + 1] = 0
      add[#add + 1] = A[from + 3 * k]
    end
  end
  if #add > 0 then many('ZADD', 'q:' .. n .. ':r', add, 1, #add) end
end

