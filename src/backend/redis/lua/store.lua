-- Stores the changes of a unit: first checks that everything is as it was when it was loaded, then
-- makes the changes, one command after the other. Nothing is changed unless all checks pass.
-- Arguments: the number of stores when it was loaded; the epoch of this node; the token of the jobs
-- that it holds for claims, or ''; the leader's epoch, or ''; whether it adds jobs, which a full
-- server may refuse; whether no other node may have stored anything since; checks; changes.
local ver, me, token, leads, grows, strict = arg(), arg(), arg(), arg(), arg() == '1', arg() == '1'
if not grows then call('DEL', P .. 'nothing') end -- a first write that needs no memory (common.lua)
if leads ~= '' then
  local leader = call('HMGET', P .. 'meta', 'leader', 'leader_epoch')
  if leader[1] ~= me or leader[2] ~= leads then return { 'led' } end
end
if token ~= '' and call('HGET', P .. 'hold:' .. me, 't') ~= token then return { 'conflict', 'hold' } end

-- checks: how many arguments they are; then hash, how many, field, expected beginning ('' = does
-- not exist) ... or one of guard, how many, its arguments
local checks = count()
local checks_end = at + checks
if call('HGET', P .. 'meta', 'ver') == ver then
  at = checks_end
elseif strict then
  return { 'conflict', 'others' }
end
while at < checks_end do
  local key, n = arg(), count()
  local fields, test = {}, guard[key]
  if test and not test(at, at + n - 1) then return { 'conflict', key } end
  for k = 1, test and 0 or n / 2 do fields[k] = A[at + 2 * k - 2] end
  local got = mget(key, fields)
  for k = 1, #fields do
    local is, should = got[k], A[at + 2 * k - 1]
    if should == '' and is or should ~= '' and (not is or sub(is, 1, #should) ~= should) then
      return { 'conflict', key }
    end
  end
  at = at + n
end

local out = {}

-- Something in this queue is due at this time, unless something is due earlier: queue, time ...
function special.DUE(key, from, to)
  for k = from, to, 2 do
    local is = call('ZSCORE', P .. key, A[k])
    if not is or tonumber(is) > tonumber(A[k + 1]) then call('ZADD', P .. key, A[k + 1], A[k]) end
  end
end

-- Sets when the first job of a queue is due, after some were removed: queue, its index, what to add
-- to its score
function special.REDUE(key, from)
  local first = call('ZRANGE', P .. A[from + 1], 0, 0, 'WITHSCORES')
  if first[1] then
    call('ZADD', P .. key, text(tonumber(first[2]) + tonumber(A[from + 2])), A[from])
  else
    call('ZREM', P .. key, A[from])
  end
end

-- Raises the field to at least this number: field, number
function special.MOST(key, from)
  local is = tonumber(call('HGET', P .. key, A[from]) or '0')
  if is < tonumber(A[from + 1]) then call('HSET', P .. key, A[from], A[from + 1]) end
end

-- field, difference ...
function special.SUM(key, from, to)
  for k = from, to, 2 do call('HINCRBY', P .. key, A[k], A[k + 1]) end
end

-- SUM of an hour; the key expires when it is older than the history.
function special.HOUR(key, from, to)
  local fresh = call('EXISTS', P .. key) == 0
  special.SUM(key, from, to)
  if fresh then call('EXPIRE', P .. key, 31 * 86400) end
end

-- SUM, and removes fields that have become 0.
function special.COUNT(key, from, to)
  for k = from, to, 2 do
    if call('HINCRBY', P .. key, A[k], A[k + 1]) <= 0 then call('HDEL', P .. key, A[k]) end
  end
end

-- Counts the jobs in each part of the sequence: part, difference ...
function special.PART(key, from, to)
  for k = from, to, 2 do
    local n = call('HINCRBY', P .. key, A[k], A[k + 1])
    if n <= 0 then
      call('HDEL', P .. key, A[k])
      call('ZREM', P .. 'parts', A[k])
    elseif n == tonumber(A[k + 1]) then
      call('ZADD', P .. 'parts', A[k], A[k])
    end
  end
end

-- Releases a unique key, if this job has it: key, job ...
function special.UNKEY(key, from, to)
  for k = from, to, 2 do
    if call('HGET', P .. key, A[k]) == A[k + 1] then call('HDEL', P .. key, A[k]) end
  end
end

-- Replies of one span of time: the key expires.
function special.LAPSE(key)
  if call('TTL', P .. key) < 0 then call('EXPIRE', P .. key, 2 * 3600) end
end

-- Sets a value to a job's payload: key, job
function special.COPY(key, from)
  call('HSET', P .. key, A[from], call('HGET', P .. 'pay', A[from + 1]) or '')
end

-- Deletes keys: all have the prefix.
function special.DROP(_, from, to)
  for k = from, to, 1000 do
    local names = {}
    for j = k, min(k + 999, to) do names[#names + 1] = P .. A[j] end
    call('UNLINK', unpack(names))
  end
end

-- Everything in an index is to be removed, step by step: its new name
function special.PURGE(key, from)
  if call('EXISTS', P .. key) == 0 then return end
  call('RENAME', P .. key, P .. A[from])
  call('SADD', P .. 'purging', A[from])
end

-- These have been removed.
function special.PURGED(key, from, to)
  many('ZREM', key, A, from, to)
  if call('EXISTS', P .. key) == 0 then call('SREM', P .. 'purging', key) end
end

-- What was reported about a job: progress or '', entries for its log or ''. Only the newest bytes
-- of the log are stored.
function special.REPORT(key, from)
  if A[from] ~= '' then call('HSET', P .. key, 'p', A[from]) end
  if A[from + 1] ~= '' then
    call('HSET', P .. key, 'l', sub((call('HGET', P .. key, 'l') or '') .. A[from + 1], -${log_bytes}))
  end
end

-- Releases the jobs that were held for claims and are still ready.
function special.BACK()
  give_back(me)
end

function special.TELL(key, from)
  call('PUBLISH', P .. key, A[from])
end

-- Sets the holders of unique keys, after the scope has changed (unique_holds in core/queues/unique.h):
-- generation, scope
function special.RESCOPE(n, from)
  local generation, scope = A[from], A[from + 1]
  call('UNLINK', P .. 'q:' .. n .. ':u')
  if scope == 'none' then return end
  local start = 0
  repeat
    local seqs = call('ZRANGE', P .. 'q:' .. n .. ':all', start, start + 999)
    local rows, keys = mget('row', seqs), {}
    for k = 1, #seqs do
      local row = rows[k]
      local key = row and unique_of(row)
      local state = key and ${job.state(row)}
      if key and (not waits(state) or ${job.generation(row)} == generation) and
          (scope == 'kept' and state ~= ${cancelled} or scope == 'live' and (waits(state) or state == ${running})) then
        keys[#keys + 1] = key
        keys[#keys + 1] = seqs[k]
      end
    end
    if #keys > 0 then many('HSET', 'q:' .. n .. ':u', keys, 1, #keys) end
    start = start + 1000
  until #seqs < 1000
end

-- Dependencies (shared/dependencies.h). The set dp:PARENT has the dependents that wait for a job, dc:CHILD the jobs for
-- which a dependent waits; `edges` of meta counts them. The work list is depl, in the order of `work` of meta, with how
-- the jobs ended first in the hash depw.
local waiting = 0
local ends = { [${done}] = '${dependency_done}', [${dead}] = '${dependency_dead}', [${cancelled}] = '${dependency_cancelled}' }

local function has_edges(seq)
  local n = text(${seq.number(seq)})
  return call('EXISTS', P .. 'dp:' .. n) == 1 or call('EXISTS', P .. 'dc:' .. n) == 1
end

local function work_add(seq, how)
  if call('HSETNX', P .. 'depw', seq, how) == 1 then
    call('ZADD', P .. 'depl', call('HINCRBY', P .. 'meta', 'work', 1), seq)
  end
  waiting = 1
end

-- Adds edges: dependent, parent ... A parent that has ended since the unit was loaded goes on the work list.
function special.EDGES(_, from, to)
  for k = from, to, 2 do
    local child, parent = A[k], A[k + 1]
    call('SADD', P .. 'dp:' .. text(${seq.number(parent)}), child)
    call('SADD', P .. 'dc:' .. text(${seq.number(child)}), parent)
    local row = call('HGET', P .. 'row', parent)
    local how = row and ends[${job.state(row)}]
    if how then work_add(parent, how) end
  end
  call('HINCRBY', P .. 'meta', 'edges', (to - from + 1) / 2)
end

-- Removes edges: dependent, parent ...
function special.UNEDGE(_, from, to)
  local n = 0
  for k = from, to, 2 do
    local child, parent = A[k], A[k + 1]
    n = n + call('SREM', P .. 'dp:' .. text(${seq.number(parent)}), child)
    call('SREM', P .. 'dc:' .. text(${seq.number(child)}), parent)
  end
  call('HINCRBY', P .. 'meta', 'edges', -n)
end

-- Jobs have ended: job, how ... Those that have edges go on the work list.
function special.ENDED(_, from, to)
  if tonumber(call('HGET', P .. 'meta', 'edges') or '0') <= 0 then return end
  for k = from, to, 2 do
    if has_edges(A[k]) then work_add(A[k], A[k + 1]) end
  end
end

-- These entries of the work list leave it if nothing is left to do.
function special.WORKED(_, from, to)
  for k = from, to do
    if not has_edges(A[k]) then
      call('HDEL', P .. 'depw', A[k])
      call('ZREM', P .. 'depl', A[k])
    end
  end
end

-- Bodies for claims: returned, not changed.
function special.BODIES(_, from, to)
  for k = from, to do
    out[#out + 1] = A[k]
    out[#out + 1] = call('HGET', P .. 'pay', A[k])
    out[#out + 1] = call('HGET', P .. 'res', A[k])
    out[#out + 1] = call('HGET', P .. 'err', A[k])
  end
end

-- Steps for claims, likewise.
function special.STEPS(_, from, to)
  for k = from, to do
    out[#out + 1] = A[k]
    out[#out + 1] = call('HGETALL', P .. 's:' .. text(${seq.number(A[k])}))
    out[#out + 1] = false
    out[#out + 1] = false
  end
end

-- For the leader: what is due next, and the counts.
function special.NEXT()
  local next = 0
  for _, key in ipairs({ 'due:${scheduled}', 'due:${running}', 'due:${done}', 'due:${dead}', 'due:${cancelled}', 'expiry', 'paused',
    'idemx', 'kvx' }) do
    local first = call('ZRANGE', P .. key, 0, 0, 'WITHSCORES')
    if first[2] and (next == 0 or tonumber(first[2]) < next) then next = tonumber(first[2]) end
  end
  out[#out + 1] = text(next)
  out[#out + 1] = call('HMGET', P .. 'total', '${sum_scheduled}', '${sum_ready}', '${sum_running}', '${sum_done}', '${sum_dead}',
    '${sum_cancelled}', '${sum_blocked}')
  out[#out + 1] = call('HLEN', P .. 'idem')
  out[#out + 1] = call('HLEN', P .. 'names')
  out[#out + 1] = call('HLEN', P .. 'kvm')
  out[#out + 1] = call('HGET', P .. 'total', 'kv')
  out[#out + 1] = call('ZCARD', P .. 'noticed')
  out[#out + 1] = call('ZCARD', P .. 'noticel')
end

while at <= #A do
  local command, key, n = arg(), arg(), count()
  local f = special[command]
  if f then
    f(key, at, at + n - 1)
  elseif n == 0 then
    call(command, P .. key)
  else
    many(command, key, A, at, at + n - 1)
  end
  at = at + n
end
-- `told`, which may be nil, is the last: Redis ends a list with the first nil.
return { 'ok', text(call('HINCRBY', P .. 'meta', 'ver', 1)), out, waiting, told }
