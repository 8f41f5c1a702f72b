-- What the leader has to do: what is due of each kind, at most a number of each. Arguments: the
-- time or '', the epoch of this node, the leader's epoch, how many, after which silence a node
-- counts as dead. Expired idempotency keys are removed at once; everything else is returned.
local now, me, leads, limit, alive_ms = clock(arg()), arg(), arg(), count(), count()
call('DEL', P .. 'nothing')
local leader = call('HMGET', P .. 'meta', 'leader', 'leader_epoch', 'ver', 'alerts')
if leader[1] ~= me or leader[2] ~= leads then return { 'led' } end
local more, held_states = 0, {}

local function end_old(hash, index, upto)
  local old = call('ZRANGEBYSCORE', P .. index, '-inf', text(upto), 'LIMIT', 0, limit)
  if #old == 0 then return end
  call('HDEL', P .. hash, unpack(old))
  call('ZREM', P .. index, unpack(old))
  if #old == limit then more = 1 end
end
end_old('idem', 'idemx', now)

-- Appends sequences and their rows (false = removed).
local function give(list, seqs)
  local rows = mget('row', seqs)
  for k = 1, #seqs do
    list[#list + 1] = seqs[k]
    list[#list + 1] = rows[k]
    if rows[k] then give_queue(queue_of(rows[k])) end
  end
end

-- By queue: leases and scheduled jobs. touched: kind, queue, what to add for its next time.
local touched = {}
local function touch(kind, n, add)
  touched[#touched + 1] = kind
  touched[#touched + 1] = n
  touched[#touched + 1] = add
end
local function by_queue(kind)
  local list, left = {}, limit
  for _, n in ipairs(call('ZRANGEBYSCORE', P .. 'due:' .. kind, '-inf', text(now), 'LIMIT', 0, 200)) do
    if left <= 0 then
      more = 1
      break
    end
    local seqs = call('ZRANGEBYSCORE', P .. 'q:' .. n .. ':' .. kind, '-inf', text(now), 'LIMIT', 0, left)
    left = left - #seqs
    touch(kind, n, '0')
    give(list, seqs)
  end
  if left <= 0 then more = 1 end
  return list
end
local leases, due = by_queue('${running}'), by_queue('${scheduled}')

local expiry = {}
local expired = call('ZRANGEBYSCORE', P .. 'expiry', '-inf', text(now), 'LIMIT', 0, limit)
give(expiry, expired)
if #expired == limit then more = 1 end

-- Leases of connections whose node is dead.
local alive = {}
local living = call('ZRANGEBYSCORE', P .. 'nodes', '(' .. text(now - alive_ms), '+inf')
for _, e in ipairs(living) do alive[e] = true end
local bound = {}
for _, e in ipairs(call('SMEMBERS', P .. 'boundset')) do
  if e ~= me and not alive[e] then
    local seqs = call('SRANDMEMBER', P .. 'bound:' .. e, limit)
    if #seqs == 0 then call('SREM', P .. 'boundset', e) end
    for _, seq in ipairs(seqs) do
      local row = call('HGET', P .. 'row', seq)
      if not row then call('SREM', P .. 'bound:' .. e, seq) end
    end
    give(bound, seqs)
    if #seqs == limit then more = 1 end
  end
end

-- Finished jobs beyond the retention of their queue (core/queues/retention.h): too many, or too old.
local kept = {}
for _, kind in ipairs({ '${done}', '${dead}', '${cancelled}' }) do
  local left = limit
  for _, n in ipairs(call('ZRANGEBYSCORE', P .. 'due:' .. kind, '-inf', text(now), 'LIMIT', 0, 200)) do
    local def = queue(n)
    if left <= 0 then
      more = 1
      break
    end
    if not def then
      call('ZREM', P .. 'due:' .. kind, n)
    else
      local key, keep, keep_ms = P .. 'q:' .. n .. ':' .. kind, ${queue.keep_done(def)}, ${queue.keep_done_ms(def)}
      if kind == '${dead}' then keep, keep_ms = ${queue.keep_dead(def)}, ${queue.keep_dead_ms(def)} end
      local over = call('ZCARD', key) - keep
      local old = call('ZCOUNT', key, '-inf', text(now - keep_ms))
      local n_gone = math.max(over, old)
      if n_gone > left then
        n_gone = left
        more = 1
      else
        touch(kind, n, text(keep_ms))
      end
      if n_gone > 0 then give(kept, call('ZRANGE', key, 0, n_gone - 1)) end
      left = left - n_gone
    end
  end
end

-- Pauses that have ended.
local resumed = call('ZRANGEBYSCORE', P .. 'paused', '-inf', text(now), 'LIMIT', 0, limit)
for _, n in ipairs(resumed) do give_queue(n) end

-- The jobs that purges and deletes have left to be removed.
local purging, purging_members, purging_key = {}, {}, call('SRANDMEMBER', P .. 'purging')
if purging_key then
  purging_members = call('ZRANGE', P .. purging_key, 0, limit - 1)
  local seqs = {}
  for k = 1, #purging_members do seqs[k] = sub(purging_members[k], -${seq_bytes}) end
  give(purging, seqs)
  if #purging_members == 0 then call('SREM', P .. 'purging', purging_key) end
  more = 1
end

-- Keys that have expired.
local keys = call('ZRANGEBYSCORE', P .. 'kvx', '-inf', text(now), 'LIMIT', 0, limit)
if #keys == limit then more = 1 end

-- Items whose trigger's job has ended or was removed: job, row, the state in which it ended.
local held = {}
for _, holder in ipairs(call('SRANDMEMBER', P .. 'holders', 200)) do
  local row = call('HGET', P .. 'row', holder)
  if not lives(holder) then
    local items = call('SRANDMEMBER', P .. 'items:' .. text(${seq.number(holder)}), limit)
    if #items == 0 then call('SREM', P .. 'holders', holder) end
    local def = row and ${job.state(row)} > ${running} and ${job.state(row)} ~= ${blocked} and queue(queue_of(row))
    give(held, items)
    for k = 1, #items do
      local item = held[#held - 2 * #items + 2 * k]
      if not item then call('SREM', P .. 'items:' .. text(${seq.number(holder)}), items[k]) end
    end
    held_states[#held_states + 1] = #held
    held_states[#held_states + 1] = def and ${job.state(row)} or 0
    more = 1
  end
end

return { 'ok', text(now), leader[3], more, queues, leases, due, expiry, bound, kept, resumed, purging_key or '',
  purging_members, purging, call('HGETALL', P .. 'bulk'), living, touched, keys, held, held_states,
  leader[4] or '', call('SRANDMEMBER', P .. 'ordering') or '' }
