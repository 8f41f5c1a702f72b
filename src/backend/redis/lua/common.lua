-- SPDX-License-Identifier: Apache-2.0
-- What all scripts share. A name in ${} is replaced when the program is built (cmake/embed.c): names
-- stand for numbers, and ${job.state(row)} for the code that reads a field. row_fields.h lists the fields of jobs,
-- queues and the rest. The members of a queue's sorted set of ready jobs are order and sequence; every other
-- member or field that names a job is its sequence.
--
-- Atomicity. Redis runs a script from its beginning to its end without running any other command in between, and
-- writes all its changes to the append-only file together. It does not roll back: if a command fails, the changes
-- before it stay. A script therefore does all its checks before its first change, and its changes cannot fail. There
-- is one exception: over its maxmemory, Redis refuses commands that may need memory until the script has changed
-- something. A script whose changes must be possible on a full server (an ack, a heartbeat) therefore begins with
-- DEL of a key that does not exist: this is a change that needs no memory, and after it Redis refuses nothing.
local P, A, call = KEYS[1], ARGV, redis.call
local sub, byte, format, min = string.sub, string.byte, string.format, math.min
local at = 1
-- For a store: commands that the server does not have, further checks, and the result about notices.
local special, guard, told = {}, {}, nil
-- For a load: what claims on queues with limits need (claims.lua).
local give_usage, usage

local function arg()
  local v = A[at]
  at = at + 1
  return v
end

local function count()
  return tonumber(arg())
end

-- The given time, or the server's, in milliseconds.
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local t = call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function text(n)
  return format('%.0f', n)
end

-- HMGET of any number of fields.
local function mget(key, list)
  local n = #list
  if n == 0 then return {} end
  if n <= 4000 then return call('HMGET', P .. key, unpack(list)) end
  local out = {}
  for from = 1, n, 4000 do
    local got = call('HMGET', P .. key, unpack(list, from, min(from + 3999, n)))
    for k = 1, #got do out[from + k - 1] = got[k] end
  end
  return out
end

-- A command with any number of arguments behind its key, in pairs where it wants pairs.
local function many(command, key, list, from, to)
  for f = from, to, 4000 do
    call(command, P .. key, unpack(list, f, min(f + 3999, to)))
  end
end

local numbers = {}
local function queue_of(row)
  local k = ${job.queue.bytes(row)}
  local n = numbers[k]
  if not n then
    n = format('%d', struct.unpack('>I4', k))
    numbers[k] = n
  end
  return n
end

local definitions = {}
local function queue(n)
  local d = definitions[n]
  if d == nil then
    d = call('HGET', P .. 'queues', n)
    definitions[n] = d
  end
  return d
end

local function unique_of(row)
  local len = ${job.unique_bytes(row)}
  return len > 0 and sub(row, ${job_bytes} + 1, ${job_bytes} + len) or nil
end

-- Adds a queue to those that a load or a tick returns: number, definition ...
local queues, queues_seen = {}, {}
local function give_queue(n)
  if queues_seen[n] then return end
  queues_seen[n] = true
  local def = queue(n)
  if def then
    queues[#queues + 1] = n
    queues[#queues + 1] = def
  end
end

-- The alert of a notice.
local function alert_of(packed)
  return sub(packed, ${notice_bytes} + 1, ${notice_bytes} + ${notice.alert_bytes(packed)})
end

-- Whether a job in this state has not begun; of these, only those of the queue's generation exist.
local function waits(state)
  return state <= ${ready} or state == ${blocked}
end

-- Whether the job waits or runs.
local function lives(seq)
  local row = call('HGET', P .. 'row', seq)
  local state = row and ${job.state(row)}
  local def = row and (state <= ${running} or state == ${blocked}) and queue(queue_of(row))
  return def and (state == ${running} or ${job.generation(row)} == ${queue.generation(def)})
end

-- Whether another node has asked the others to pause. ms: for how long this node asks for a pause,
-- 0 = it does not. A unit that requires that nothing is stored between its load and its store might
-- otherwise never succeed. `stop` of meta: epoch, end of the pause, its length. It uses the
-- server's clock, because a clock that tests move may stand still; and a pause of a node that died
-- must not become longer when that clock is set back.
local function must_wait(me, ms)
  local stop = call('HGET', P .. 'meta', 'stop')
  if not stop and ms == 0 then return false end
  local now = clock('')
  local who, till, most = string.match(stop or '', '^(%d+) (%d+) (%d+)$')
  local left = who and who ~= me and tonumber(till) - now or 0
  if left > 0 and left <= tonumber(most) then return true end
  if ms > 0 then
    call('DEL', P .. 'nothing') -- a first write that needs no memory; see above
    call('HSET', P .. 'meta', 'stop', me .. ' ' .. text(now + ms) .. ' ' .. text(ms))
  elseif who ~= me or tonumber(till) <= now then -- another unit of this node may need its own pause
    call('HDEL', P .. 'meta', 'stop')
  end
  return false
end

-- Ends a pause that this node asked for, also after it gave up.
local function end_wait(me)
  local who = string.match(call('HGET', P .. 'meta', 'stop') or '', '^(%d+) ')
  if who == me then call('HDEL', P .. 'meta', 'stop') end
end

-- Returns the jobs that a node holds for claims to their index, if they are still ready.
local function give_back(epoch)
  local key = P .. 'hold:' .. epoch
  local held = call('HGETALL', key)
  if #held == 0 then return end
  local members, seqs = {}, {}
  for k = 1, #held, 2 do
    if held[k] ~= 't' then
      members[#members + 1] = held[k]
      seqs[#seqs + 1] = ${ready.seq(held[k])}
    end
  end
  local rows = mget('row', seqs)
  local ready, purging = {}, {}
  for k = 1, #members do
    local row = rows[k]
    local def = row and ${job.state(row)} == ${ready} and ${job.order(row)} == ${ready.order(members[k])} and queue(queue_of(row))
    if def then
      local to = ${queue.generation(def)} == ${job.generation(row)} and ready or purging
      local n = queue_of(row)
      local list = to[n] or {}
      to[n] = list
      list[#list + 1] = 0
      list[#list + 1] = members[k]
    end
  end
  for n, list in pairs(ready) do
    many('ZADD', 'q:' .. n .. ':${ready}', list, 1, #list)
    -- The queue got limits meanwhile: its order may lack these jobs, and is gone through again (limits.lua).
    if call('HDEL', P .. 'q:' .. n .. ':l', 'at') == 1 or (call('HGET', P .. 'q:' .. n .. ':l', 'order') or '') ~= '' then
      call('SADD', P .. 'ordering', n)
    end
  end
  for n, list in pairs(purging) do
    many('ZADD', 'purge:' .. n .. ':held', list, 1, #list)
    call('SADD', P .. 'purging', 'purge:' .. n .. ':held')
  end
  call('DEL', key)
  call('ZREM', P .. 'holds', epoch)
end

