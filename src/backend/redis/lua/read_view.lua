-- Quick queries, each with its own answer. Bodies are returned up to a number of bytes for each
-- answer.
local now, bytes_max = clock(arg()), count()
local answers = {}

-- Rows followed by bodies: sequence, row, payload, result, error ...
local function shown(seqs, body)
  local out, rows, bytes = {}, mget('row', seqs), 0
  for k = 1, #seqs do
    local seq, row = seqs[k], rows[k]
    if row then
      local bits = ${job.has(row)}
      local base = #out
      out[base + 1], out[base + 2], out[base + 3], out[base + 4], out[base + 5] = seq, row, false, false, false
      if body and bytes < bytes_max then
        if bits % (2 * ${has_payload}) >= ${has_payload} then out[base + 3] = call('HGET', P .. 'pay', seq) end
        if bits % (2 * ${has_result}) >= ${has_result} then out[base + 4] = call('HGET', P .. 'res', seq) end
        bytes = bytes + #(out[base + 3] or '') + #(out[base + 4] or '')
      end
      if body and bits % (2 * ${has_error}) >= ${has_error} then out[base + 5] = call('HGET', P .. 'err', seq) end
    end
  end
  return out
end

local ask = {}

-- The jobs for which a dependent waits: sequence, row ...
local function waits_for(seq)
  local out = {}
  local list = call('SMEMBERS', P .. 'dc:' .. text(${seq.number(seq)}))
  local rows = mget('row', list)
  for k = 1, #list do
    if rows[k] then
      out[#out + 1] = list[k]
      out[#out + 1] = rows[k]
    end
  end
  return out
end

-- What a waiting job waits for: how many jobs of its queue run and are ready, and how many come before it. A job that
-- a node holds for a claim is not counted.
local function wait_counts(seq, row)
  local q, before = P .. 'q:' .. queue_of(row), 0
  local sums = call('HMGET', q .. ':sum', ${running} - 1, ${ready} - 1)
  if ${job.state(row)} == ${ready} then before = call('ZLEXCOUNT', q .. ':${ready}', '-', '(' .. ${job.order(row)} .. seq) end
  return { sums[1] or '0', sums[2] or '0', before }
end

-- a job: sequence, with body, with attempts and progress, with log, with the jobs on which it depends, with what it
-- waits for, with its steps
function ask.G()
  local seq, body, attempts, log = arg(), arg() == '1', arg() == '1', arg() == '1'
  local parents, wait, steps = arg() == '1', arg() == '1', arg() == '1'
  local row = call('HGET', P .. 'row', seq)
  if not row then return { false } end
  local got = shown({ seq }, body)
  if not body and ${job.has(row)} % (2 * ${has_error}) >= ${has_error} then got[5] = call('HGET', P .. 'err', seq) end
  local number = text(${seq.number(seq)})
  return { got, queue(queue_of(row)), attempts and call('LRANGE', P .. 'a:' .. number, 0, -1) or {},
    attempts and call('HGET', P .. 'w:' .. number, 'p'), log and call('HGET', P .. 'w:' .. number, 'l'), call('HGET', P .. 'dep', seq),
    parents and ${job.state(row)} == ${blocked} and waits_for(seq) or {},
    wait and wait_counts(seq, row), steps and call('HGETALL', P .. 's:' .. number) or {} }
end

-- The entries of every node with this name.
local function registered(name)
  local out = {}
  for _, node in ipairs(call('ZREVRANGE', P .. 'nodes', 0, 63)) do
    local entry = call('HGET', P .. 'worker', node .. ' ' .. name)
    local space = entry and string.find(entry, ' ', 1, true)
    if entry and tonumber(sub(entry, 1, space - 1)) > now then
      out[#out + 1] = name
      out[#out + 1] = sub(entry, 1, space - 1)
      out[#out + 1] = sub(entry, space + 1)
    end
  end
  return out
end

-- The registry of workers: the epoch of this node, the number of entries, then for each its name,
-- until when it is stored, and facts; then a prefix, and a name or ''. Returns the name, the time and the facts of the
-- entries of every node that have this prefix, or this name.
function ask.Y()
  local node, n, out = arg(), count(), {}
  for _ = 1, n do
    local name, keep_until, facts = arg(), arg(), arg()
    call('HSET', P .. 'worker', node .. ' ' .. name, keep_until .. ' ' .. facts)
  end
  local prefix, only = arg(), arg()
  if only ~= '' then return registered(only) end
  local all = call('HGETALL', P .. 'worker')
  for k = 1, #all, 2 do
    local space = string.find(all[k + 1], ' ', 1, true)
    local keep_until, name = sub(all[k + 1], 1, space - 1), sub(all[k], string.find(all[k], ' ', 1, true) + 1)
    if tonumber(keep_until) <= now then
      call('HDEL', P .. 'worker', all[k])
    elseif #out < 3 * ${workers_max} and sub(name, 1, #prefix) == prefix then
      out[#out + 1] = name
      out[#out + 1] = keep_until
      out[#out + 1] = sub(all[k + 1], space + 1)
    end
  end
  return out
end

-- Running jobs by the time since which they run.
local function by_since(n, newest)
  local list = {}
  for _, seq in ipairs(call('ZRANGE', P .. 'q:' .. n .. ':${running}', 0, -1)) do
    local row = call('HGET', P .. 'row', seq)
    if row then
      list[#list + 1] = { ${job.since(row)}, ${job.token_epoch(row)}, ${job.token_counter(row)}, ${seq.number(seq)}, seq }
    end
  end
  table.sort(list, function(a, b)
    if a[1] ~= b[1] then return (a[1] < b[1]) ~= newest end
    if newest then return a[4] > b[4] end
    if a[2] ~= b[2] then return a[2] < b[2] end
    return a[3] < b[3]
  end)
  return list
end

-- a peek: queue, state, how many, newest first, how many to skip, with body
function ask.P()
  local name, state, limit, newest, skip, body = arg(), arg(), count(), arg() == '1', count(), arg() == '1'
  local n = call('HGET', P .. 'names', name)
  if not n then return { false } end
  local seqs = {}
  if state == '${ready}' then
    for k, member in ipairs(call('ZRANGE', P .. 'q:' .. n .. ':${ready}', 0, limit - 1)) do seqs[k] = ${ready.seq(member)} end
  elseif state == '${running}' then
    local list = by_since(n, newest)
    for k = skip + 1, min(#list, skip + limit) do seqs[#seqs + 1] = list[k][5] end
  elseif newest then
    seqs = call('ZREVRANGE', P .. 'q:' .. n .. ':' .. state, skip, skip + limit - 1)
  else
    seqs = call('ZRANGE', P .. 'q:' .. n .. ':' .. state, 0, limit - 1)
  end
  return { queue(n), shown(seqs, body) }
end

-- The time since which the first twenty of each priority have been ready; if there are many
-- priorities, of the highest ones.
local function oldest_since(n)
  local key, from, since = P .. 'q:' .. n .. ':${ready}', '-', 0
  for _ = 1, 100 do
    local members = call('ZRANGEBYLEX', key, from, '+', 'LIMIT', 0, 20)
    if #members == 0 then break end
    local order, seqs = ${ready.order(members[1])}, {}
    for _, member in ipairs(members) do
      if ${ready.order(member)} == order then seqs[#seqs + 1] = ${ready.seq(member)} end
    end
    for _, row in ipairs(mget('row', seqs)) do
      local s = row and ${job.since(row)} or 0
      if s > 0 and (since == 0 or s < since) then since = s end
    end
    from = '(' .. order .. '\255\255\255\255\255\255\255\255'
  end
  return text(since)
end

local fields = {}
for f = 0, ${sum_count} - 1 do fields[f + 1] = f end
-- How many ready jobs are in the groups of a list, up to a number.
local function ready_in(l, groups)
  local n = 0
  for _, group in ipairs(groups) do
    if n >= ${limited_shown} then break end
    n = n + count_of(l.key .. 'r', group)
  end
  return min(n, ${limited_shown})
end

local any_limited
-- Of a queue with limits: how many jobs run, its bucket and round, how many ready jobs are in groups without a free slot,
-- and in groups that wait for a token.
local function limits_view(n)
  if any_limited == nil then any_limited = call('HGET', P .. 'meta', 'limited') or false end
  local l = any_limited and limits_of(n)
  if not l then return {} end
  local busy, waiting = 0, 0
  if l.ordered then
    busy = ready_in(l, call('ZRANGE', l.key .. 'f', 0, ${limited_shown}))
    waiting = ready_in(l, call('ZRANGEBYSCORE', l.key .. 'w', '(' .. text(now * 1000), '+inf', 'LIMIT', 0, ${limited_shown}))
  end
  return { call('ZCARD', l.key .. '${running}'), l.use, busy, waiting }
end
local function view(out, n)
  local def = n and queue(n)
  if not def then return end
  local first = call('ZRANGE', P .. 'q:' .. n .. ':${scheduled}', 0, 0, 'WITHSCORES')
  out[#out + 1] = n
  out[#out + 1] = def
  out[#out + 1] = call('HMGET', P .. 'q:' .. n .. ':sum', unpack(fields))
  out[#out + 1] = oldest_since(n)
  out[#out + 1] = first[2] and text(tonumber(first[2])) or '0'
  out[#out + 1] = limits_view(n)
end

-- a queue: name or '', number, group or ''
function ask.Q()
  local name, n, group = arg(), arg(), arg()
  local out, counts = {}, {}
  if name ~= '' then n = call('HGET', P .. 'names', name) end
  view(out, n)
  if n and group ~= '' then
    for state = ${scheduled}, ${blocked} do counts[state] = call('HGET', P .. 'q:' .. n .. ':g', state .. group) end
  end
  return { out, counts }
end

-- queues by name: after, how many
function ask.L()
  local after, limit = arg(), count()
  local out = {}
  local names = call('ZRANGEBYLEX', P .. 'namel', after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, limit)
  for _, n in ipairs(mget('names', names)) do view(out, n) end
  return { out, {} }
end

-- leases of all queues
function ask.W()
  local out = {}
  for _, n in ipairs(call('ZRANGE', P .. 'due:${running}', 0, -1)) do
    local seqs = queue(n) and call('ZRANGE', P .. 'q:' .. n .. ':${running}', 0, -1) or {}
    local rows = mget('row', seqs)
    for k = 1, #seqs do
      if rows[k] and #out < 40000 then
        out[#out + 1] = seqs[k]
        out[#out + 1] = rows[k]
      end
    end
  end
  return out
end

-- failed attempts, newest first: queue or '', how many
function ask.X()
  local name, limit = arg(), count()
  local only = name ~= '' and call('HGET', P .. 'names', name)
  local out, attempts = {}, {}
  if name ~= '' and not only then return { false } end
  for start = 0, 9999, 500 do
    local list = call('LRANGE', P .. 'wrong', start, start + 499)
    for _, entry in ipairs(list) do
      local seq = ${wrong.seq(entry)}
      local row = call('HGET', P .. 'row', seq)
      local def = row and (not only or queue_of(row) == only) and queue(queue_of(row))
      if def and (not waits(${job.state(row)}) or ${job.generation(row)} == ${queue.generation(def)}) then
        local of = attempts[seq] or call('LRANGE', P .. 'a:' .. text(${seq.number(seq)}), 0, -1)
        attempts[seq] = of
        for _, attempt in ipairs(of) do
          if ${attempt.identity(attempt)} == sub(entry, ${wrong_bytes} + 1) and #out < limit * 4 then
            out[#out + 1], out[#out + 2], out[#out + 3], out[#out + 4] = seq, row, def, attempt
            break
          end
        end
      end
    end
    if #list < 500 or #out >= limit * 4 then break end
  end
  return { 1, out }
end

-- history: queue, hours from, to
function ask.H()
  local n, from, to = call('HGET', P .. 'names', arg()), count(), count()
  local out = {}
  if not n then return { false } end
  for hour = from, to - 1 do
    local of = call('HGETALL', P .. 'h:' .. n .. ':' .. text(hour))
    if #of > 0 then
      out[#out + 1] = text(hour)
      out[#out + 1] = of
    end
  end
  return { 1, out }
end

-- the queue of a list: its number and its encoding
function ask.D()
  local n = call('HGET', P .. 'names', arg())
  return n and { n, queue(n), call('HMGET', P .. 'q:' .. n .. ':sum', unpack(fields)) } or { false }
end

-- a schedule: name or '', number
function ask.S()
  local name, n = arg(), arg()
  if name ~= '' then n = call('HGET', P .. 'schedn', name) end
  local packed = n and call('HGET', P .. 'sched', n)
  return packed and { packed, lives(${schedule.last_seq(packed)}) and 1 or 0, '0' } or {}
end

-- schedules: by name after one, or by their last change; how many
function ask.T()
  local by_change, after, limit = arg() == '1', arg(), count()
  local out, names, found = {}, {}, {}
  if by_change then
    found = call('ZRANGEBYSCORE', P .. 'schedc', '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  else
    names = call('ZRANGEBYLEX', P .. 'schedl', after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, limit)
    for k, n in ipairs(mget('schedn', names)) do found[2 * k - 1], found[2 * k] = n, '0' end
  end
  for k = 1, #found, 2 do
    local packed = found[k] and call('HGET', P .. 'sched', found[k])
    if packed then
      out[#out + 1] = packed
      out[#out + 1] = lives(${schedule.last_seq(packed)}) and 1 or 0
      out[#out + 1] = text(tonumber(found[k + 1]))
    end
  end
  return out
end

-- keys: with values, how many, keys
function ask.K()
  local value, keys = arg() == '1', {}
  for k = 1, count() do keys[k] = arg() end
  local metas, out = mget('kvm', keys), {}
  local values = value and mget('kvv', keys) or {}
  for k = 1, #keys do
    out[2 * k - 1] = metas[k]
    out[2 * k] = values[k] or false
  end
  return out
end

-- keys in their order: from, before, reverse, with values, how many; expired ones are skipped
function ask.I()
  local low, high, reverse, value, limit = '[' .. arg(), '(' .. arg(), arg() == '1', arg() == '1', count()
  local out, bytes = {}, 0
  for _ = 1, 20 do
    local keys = reverse and call('ZREVRANGEBYLEX', P .. 'kvl', high, low, 'LIMIT', 0, limit)
        or call('ZRANGEBYLEX', P .. 'kvl', low, high, 'LIMIT', 0, limit)
    local metas = mget('kvm', keys)
    for k = 1, #keys do
      local expires = metas[k] and ${kv.expires_at(metas[k])}
      if expires and (expires == 0 or expires > now) and #out < 3 * limit then
        out[#out + 1] = keys[k]
        out[#out + 1] = metas[k]
        out[#out + 1] = value and bytes < bytes_max and call('HGET', P .. 'kvv', keys[k])
        bytes = bytes + #(out[#out] or '')
      end
    end
    if #keys < limit or #out >= 3 * limit then break end
    if reverse then high = '(' .. keys[#keys] else low = '(' .. keys[#keys] end
  end
  return out
end

-- alert rules: name or '' for all. Each with the number of its pending and dead notices, of
-- conditions that it has raised, and the oldest of these.
function ask.A()
  local name, rules, out = arg(), {}, {}
  if name == '' then
    rules = call('HGETALL', P .. 'alert')
  else
    local packed = call('HGET', P .. 'alert', name)
    if packed then rules = { name, packed } end
  end
  for k = 1, #rules, 2 do
    local notices, raised, fields = P .. 'notice:' .. rules[k], 'raised:' .. rules[k], {}
    for j, queue in ipairs(call('ZRANGE', P .. raised, 0, 99)) do fields[j] = rules[k] .. '\0' .. queue end
    out[#out + 1] = rules[k]
    out[#out + 1] = rules[k + 1]
    out[#out + 1] = call('ZCOUNT', notices, ${notice_pending}, ${notice_pending})
    out[#out + 1] = call('ZCOUNT', notices, ${notice_dead}, ${notice_dead})
    out[#out + 1] = call('ZCARD', P .. raised)
    out[#out + 1] = mget('raised', fields)
  end
  return out
end

-- notices with their rules: number or '', after which one, how many
function ask.N()
  local number, after, limit = arg(), arg(), count()
  local numbers, out = { number }, {}
  if number == '' then numbers = call('ZRANGEBYLEX', P .. 'noticel', '(' .. after, '+', 'LIMIT', 0, limit) end
  local packed = mget('notice', numbers)
  for k = 1, #numbers do
    local rule = packed[k] and call('HGET', P .. 'alert', alert_of(packed[k]))
    if rule then
      out[#out + 1] = numbers[k]
      out[#out + 1] = packed[k]
      out[#out + 1] = rule
    end
  end
  return out
end

-- breakers
function ask.E()
  local out = call('HVALS', P .. 'breaker')
  for _, packed in ipairs(call('HVALS', P .. 'breakern')) do out[#out + 1] = packed end
  return out
end

-- bodies: sequences
function ask.B()
  local seqs = {}
  for k = 1, count() do seqs[k] = arg() end
  return shown(seqs, true)
end

while at <= #A do answers[#answers + 1] = ask[arg()]() end
return { text(now), answers }
