-- What a unit reads. If other nodes are alive (shared), ready jobs for its claims are held, so that
-- no other node can claim them, until the store releases them or their time is over. A node that is
-- alone only reads, and the store finds out whether another node stored something in between.
local now = clock(arg())
local me, mode, token, hold_ms = arg(), arg(), arg(), count()
local shared = mode == '1' -- 'keys': as well, but this call concerns only keys, and holds nothing
local seqs_wanted, numbers_wanted, live_wanted = count(), count(), arg() == '1'
local quiet_ms = count()
if shared and must_wait(me, quiet_ms) then return { 'wait' } end
local rows, seen = {}, {}

local function give_row(seq, row)
  if seen[seq] or not row then return end
  seen[seq] = true
  rows[#rows + 1] = seq
  rows[#rows + 1] = row
  give_queue(queue_of(row))
end

if shared then
  call('DEL', P .. 'nothing')
  give_back(me)
  for _, late in ipairs(call('ZRANGEBYSCORE', P .. 'holds', '-inf', text(now))) do give_back(late) end
end

-- numbers to draw
local seq_before, number_before = 0, 0
local meta = call('HMGET', P .. 'meta', 'seq', 'number', 'ver', 'alerts', 'limited')
local stores_before = meta[3] or ''
local seq_high = tonumber(meta[1] or '0')
seq_before, number_before = seq_high, tonumber(meta[2] or '0')
local function draw(field, n)
  call('HINCRBY', P .. 'meta', field, n)
  -- A node that believes to be alone may have read the same numbers: its store must be refused.
  meta[3] = text(call('HINCRBY', P .. 'meta', 'ver', 1))
end
if shared and seqs_wanted > 0 then draw('seq', seqs_wanted) end
if shared and numbers_wanted > 0 then draw('number', numbers_wanted) end

-- queues by name: name, how many jobs its claims want, whether its sums are asked for
local by_name, claims, sums = {}, {}, {}
local wanted = {}
for k = 1, count() do
  wanted[k] = arg()
  claims[k] = count()
  sums[k] = arg()
end
local found = mget('names', wanted)
local fields = {}
for f = 0, ${sum_count} - 1 do fields[f + 1] = f end
local counted = {}
local function give_sums(n)
  counted[#counted + 1] = n
  counted[#counted + 1] = call('HMGET', P .. 'q:' .. n .. ':sum', unpack(fields))
end
for k = 1, #wanted do
  local n = found[k]
  -- The node does not know yet that the queue has limits: this is the load without the part for them.
  if n and claims[k] > 0 and meta[5] and not give_usage and call('EXISTS', P .. 'q:' .. n .. ':l') == 1 then return { 'limits' } end
  if n then
    by_name[wanted[k]] = n
    give_queue(n)
    if sums[k] == '1' then give_sums(n) end
  end
end

-- jobs by sequence, each with the token of the request, or '' (there may be many: avoid calls)
local named, named_count, first = {}, count(), at
for k = 1, named_count do named[k] = A[first + 2 * k - 2] end
at = first + 2 * named_count
local kept_of, given, row_count = {}, {}, #rows
local named_rows = mget('row', named)
for k = 1, named_count do
  local seq, row, token = named[k], named_rows[k], A[first + 2 * k - 1]
  if row and not seen[seq] then
    seen[seq] = true
    rows[row_count + 1], rows[row_count + 2] = seq, row
    row_count = row_count + 2
    local q = ${job.queue.bytes(row)}
    if not given[q] then -- not numbers[q]: a released job may have loaded it
      given[q] = true
      give_queue(queue_of(row))
    end
  end
  if token ~= '' and (not row or ${job.token(row)} ~= token) then kept_of[#kept_of + 1] = token end
end

local function give_holder(n, key)
  local seq = call('HGET', P .. 'q:' .. n .. ':u', key)
  if seq and not seen[seq] then give_row(seq, call('HGET', P .. 'row', seq)) end
end

-- those of them that may take their unique key back
for _ = 1, count() do
  local row = call('HGET', P .. 'row', arg())
  local key = row and unique_of(row)
  if key then give_holder(queue_of(row), key) end
end

-- unique keys of enqueues: queue, key
for _ = 1, count() do
  local n, key = by_name[arg()], arg()
  if n then give_holder(n, key) end
end

-- claims by nonce: their jobs are not known yet
local nonces, any_nonce = {}, false
for _ = 1, count() do
  nonces[arg()] = true
  any_nonce = true
end
if any_nonce then
  for _, n in ipairs(call('ZRANGE', P .. 'due:${running}', 0, -1)) do
    local running = call('ZRANGE', P .. 'q:' .. n .. ':${running}', 0, -1)
    local got = mget('row', running)
    for k = 1, #running do
      if got[k] and nonces[${job.nonce(got[k])}] then give_row(running[k], got[k]) end
    end
  end
end

-- idempotency keys
local idems, idem_keys = {}, {}
for k = 1, count() do idem_keys[k] = arg() end
local idem_found = mget('idem', idem_keys)
for k = 1, #idem_keys do
  if idem_found[k] then
    idems[#idems + 1] = idem_keys[k]
    idems[#idems + 1] = idem_found[k]
    local seq = ${idem.seq(idem_found[k])}
    if not seen[seq] then give_row(seq, call('HGET', P .. 'row', seq)) end
  end
end

-- ready jobs for the claims, with bodies that are small; what queues with limits use, see claims.lua
local taken, hold = {}, {}
local function expired(row)
  return ${job.has(row)} % (2 * ${has_expiry}) >= ${has_expiry} and ${job.expires_at(row)} <= now
end
local function with_bodies(list)
  local got, valid = mget('row', list), 0
  local pay_of, pay_at, other, pays_wanted, base = {}, {}, {}, 0, #taken
  for k = 1, #list do
    local row = got[k]
    if row then
      local bits = ${job.has(row)}
      if bits % (2 * ${has_expiry}) == 0 or not expired(row) then valid = valid + 1 end
      taken[base + 1], taken[base + 2] = list[k], row
      taken[base + 3], taken[base + 4], taken[base + 5] = false, false, false
      if bits % (2 * ${has_payload}) >= ${has_payload} + ${has_small_payload} then
        pays_wanted = pays_wanted + 1
        pay_of[pays_wanted], pay_at[pays_wanted] = list[k], base + 3
      end
      if bits % (2 * ${has_error}) >= ${has_result} then other[#other + 1] = base end
      base = base + 5
    end
  end
  local pays = mget('pay', pay_of)
  for k = 1, #pays do taken[pay_at[k]] = pays[k] end
  for _, base in ipairs(other) do
    taken[base + 4] = call('HGET', P .. 'res', taken[base + 1])
    taken[base + 5] = call('HGET', P .. 'err', taken[base + 1])
  end
  return valid
end
for k = 1, #wanted do
  local n, want, from = found[k], claims[k], 0
  local def = n and want > 0 and queue(n)
  local open = def and ${queue.paused_until(def)} <= now
  local l = def and give_usage and give_usage(n, want, open, now, with_bodies)
  if open and not (l and l.ordered) then
    local key = P .. 'q:' .. n .. ':${ready}'
    for _ = 1, 8 do -- expired jobs are skipped; the leader ends them soon
      local members, list = {}, {}
      if shared and not l then
        local popped = call('ZPOPMIN', key, want)
        for j = 1, #popped, 2 do
          members[#members + 1] = popped[j]
          hold[#hold + 1] = popped[j]
          hold[#hold + 1] = '1'
        end
      else
        members = call('ZRANGE', key, from, from + want - 1)
        from = from + want
      end
      for j = 1, #members do list[j] = ${ready.seq(members[j])} end
      local valid = with_bodies(list)
      if #members < want or valid == want then break end
      want = want - valid
    end
  end
end
if #hold > 0 then
  call('HSET', P .. 'hold:' .. me, 't', token)
  many('HSET', 'hold:' .. me, hold, 1, #hold)
  call('ZADD', P .. 'holds', text(now + hold_ms), me)
end

-- kept replies to the reports that ended these leases
local kept = {}
local kept_spans, kept_span = count(), math.floor(now / count())
if #kept_of > 0 then
  for span = kept_span, kept_span - kept_spans, -1 do
    local kept_found = mget('kept:' .. text(span), kept_of)
    for k = 1, #kept_of do
      if kept_found[k] then
        kept[#kept + 1] = kept_of[k]
        kept[#kept + 1] = kept_found[k]
      end
    end
  end
end

-- keys and values: keys, their buckets, number of versions
local kvm, kvb, kv_keys, kv_buckets = {}, {}, {}, {}
for k = 1, count() do kv_keys[k] = arg() end
for k = 1, count() do kv_buckets[k] = arg() end
local versions, version_before, kv_count, kv_bytes = count(), 0, 0, 0
if #kv_keys > 0 or versions > 0 then
  local metas, changed = mget('kvm', kv_keys), mget('kvb', kv_buckets)
  for k = 1, #kv_keys do
    if metas[k] then
      kvm[#kvm + 1] = kv_keys[k]
      kvm[#kvm + 1] = metas[k]
    end
  end
  for k = 1, #kv_buckets do
    kvb[#kvb + 1] = kv_buckets[k]
    kvb[#kvb + 1] = changed[k] or ''
  end
  version_before = tonumber(call('HGET', P .. 'meta', 'kv_version') or '0')
  if mode ~= '' and versions > 0 then draw('kv_version', versions) end
  kv_count, kv_bytes = call('HLEN', P .. 'kvm'), tonumber(call('HGET', P .. 'total', 'kv') or '0')
end

-- sums of the queues of named jobs, if they have warn_depth
if arg() == '1' then
  for k = 1, #queues, 2 do give_sums(queues[k]) end
end

-- jobs that are to become parents; what jobs depend on; edges that may exist: dependent, parent
local parents, settling, dependents, edges = {}, {}, {}, {}
local function arguments(n)
  local list = {}
  for k = 1, n do list[k] = arg() end
  return list
end
local parent_seqs = arguments(count())
if #parent_seqs > 0 then
  local got, works = mget('row', parent_seqs), mget('depw', parent_seqs)
  for k = 1, #parent_seqs do
    local row = got[k]
    local def = row and queue(queue_of(row))
    if def and (not waits(${job.state(row)}) or ${job.generation(row)} == ${queue.generation(def)}) then
      parents[#parents + 1] = parent_seqs[k]
      parents[#parents + 1] = row
    end
    if works[k] then settling[#settling + 1] = parent_seqs[k] end
  end
end
local dependent_seqs = arguments(count())
local got = mget('dep', dependent_seqs)
for k = 1, #dependent_seqs do
  if got[k] then
    dependents[#dependents + 1] = dependent_seqs[k]
    dependents[#dependents + 1] = got[k]
  end
end
for _ = 1, count() do
  local child, parent = arg(), arg()
  if call('SISMEMBER', P .. 'dc:' .. text(${seq.number(child)}), parent) == 1 then
    edges[#edges + 1] = child
    edges[#edges + 1] = parent
  end
end

local keys, live, queues_there = 0, 0, 0
if numbers_wanted > 0 then queues_there = call('HLEN', P .. 'names') end
if live_wanted then
  keys = call('HLEN', P .. 'idem')
  local t = call('HMGET', P .. 'total', '${sum_scheduled}', '${sum_ready}', '${sum_running}', '${sum_blocked}')
  live = (t[1] or 0) + (t[2] or 0) + (t[3] or 0) + (t[4] or 0)
end
return { text(now), meta[3] or '', text(seq_before), text(number_before), text(seq_high), keys, live, #hold > 0 and 1 or 0,
  queues, counted, rows, idems, kept, taken, { kvm, kvb, text(version_before), kv_count, kv_bytes }, stores_before, meta[4] or '', queues_there,
  { parents, settling, dependents, edges }, usage or {} }
