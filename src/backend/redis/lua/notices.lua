-- Placed before store.lua if a unit changes alert rules, notices or breakers: the changes that need
-- more than one command of the server.
local dropped = 0

local function tell()
  local pending = call('ZCARD', P .. 'noticed')
  told = { dropped, pending, call('ZCARD', P .. 'noticel') - pending }
end

local function forget(numbers)
  local packed = mget('notice', numbers)
  for k = 1, #numbers do
    if packed[k] then call('ZREM', P .. 'notice:' .. alert_of(packed[k]), numbers[k]) end
  end
  many('HDEL', 'notice', numbers, 1, #numbers)
  many('HDEL', 'noticeh', numbers, 1, #numbers)
  many('ZREM', 'noticel', numbers, 1, #numbers)
  many('ZREM', 'noticed', numbers, 1, #numbers)
  tell()
end

-- The state of a notice: number, state, when to check it, the epoch of the node that delivers it or
-- '', notice
local function set(number, state, look, holder, packed)
  call('HSET', P .. 'notice', number, packed)
  call('ZADD', P .. 'notice:' .. alert_of(packed), state, number)
  if state == '${notice_pending}' then
    call('ZADD', P .. 'noticed', look, number)
  else
    call('ZREM', P .. 'noticed', number)
  end
  if holder == '' then
    call('HDEL', P .. 'noticeh', number)
  else
    call('HSET', P .. 'noticeh', number, holder)
  end
end

-- New notices: when to check it, notice ... The key is the limit: the oldest ones are removed.
function special.NOTICE(most, from, to)
  for k = from, to, 2 do
    local number = struct.pack('>I8', call('HINCRBY', P .. 'meta', 'notice', 1))
    call('ZADD', P .. 'noticel', 0, number)
    set(number, '${notice_pending}', A[k], '', A[k + 1])
  end
  local over = call('ZCARD', P .. 'noticel') - tonumber(most)
  if over > 0 then
    dropped = dropped + over
    forget(call('ZRANGE', P .. 'noticel', 0, over - 1))
  end
  tell()
end

-- Existing notices: as in set ...
function special.NOTED(_, from, to)
  for k = from, to, 5 do set(A[k], A[k + 1], A[k + 2], A[k + 3], A[k + 4]) end
  tell()
end

-- Delivered or discarded notices: numbers
function special.UNNOTE(_, from, to)
  local numbers = {}
  for k = from, to do numbers[#numbers + 1] = A[k] end
  forget(numbers)
end

-- An alert has no target for its notices any more: name
function special.NOWHERE(_, from)
  forget(call('ZRANGE', P .. 'notice:' .. A[from], 0, -1))
end

-- A target answers again: its notices are due at their regular time. Alerts ...
function special.LETGO(_, from, to)
  for k = from, to do
    local numbers = call('ZRANGEBYSCORE', P .. 'notice:' .. A[k], ${notice_pending}, ${notice_pending})
    local packed, holders, list = mget('notice', numbers), mget('noticeh', numbers), {}
    for j = 1, #numbers do
      if packed[j] and not holders[j] then
        list[#list + 1] = text(${notice.due(packed[j])})
        list[#list + 1] = numbers[j]
      end
    end
    many('ZADD', 'noticed', list, 1, #list)
  end
end

-- Removes everything that an alert has raised: name
function special.UNRAISE(_, from)
  local key, fields = 'raised:' .. A[from], {}
  for k, queue in ipairs(call('ZRANGE', P .. key, 0, -1)) do fields[k] = A[from] .. '\0' .. queue end
  many('HDEL', 'raised', fields, 1, #fields)
  call('DEL', P .. key)
end

-- A condition: alert, queue, since when, and its encoding; '' = it no longer holds ...
function special.RAISE(_, from, to)
  for k = from, to, 4 do
    local key, field = P .. 'raised:' .. A[k], A[k] .. '\0' .. A[k + 1]
    if A[k + 3] == '' then
      call('HDEL', P .. 'raised', field)
      call('ZREM', key, A[k + 1])
    else
      call('HSET', P .. 'raised', field, A[k + 3])
      call('ZADD', key, A[k + 2], A[k + 1])
    end
  end
end

