-- What a unit about alert rules, notices and breakers reads. Arguments: the time or '', the version
-- of the rules that the node knows, the name of the query, and its arguments. Returns the time, the
-- number of stores, the version of the rules, the rules by name if the version differs; notices,
-- each with the time at which to check it and whether a node has it; the time at which the next of
-- the others is to be checked; breakers; the number of named ones; raised conditions; their number.
local now, known, what = clock(arg()), arg(), arg()
local meta = call('HMGET', P .. 'meta', 'ver', 'alerts')
local version = meta[2] or ''
local notices, next, breakers, named, raised, there = {}, '0', {}, 0, {}, 0

local function give(numbers)
  local packed, holders = mget('notice', numbers), mget('noticeh', numbers)
  for k = 1, #numbers do
    if packed[k] then
      notices[#notices + 1] = numbers[k]
      notices[#notices + 1] = packed[k]
      notices[#notices + 1] = call('ZSCORE', P .. 'noticed', numbers[k]) or '0'
      notices[#notices + 1] = holders[k] and 1 or 0
    end
  end
  breakers = call('HVALS', P .. 'breaker')
end

-- Notices that a dead node had taken are checked when they are due; so are those of this node that
-- it no longer knows.
local function let_go(me, silent_ms, reset, mine)
  local alive, held = {}, call('HGETALL', P .. 'noticeh')
  for _, e in ipairs(call('ZRANGEBYSCORE', P .. 'nodes', '(' .. text(now - silent_ms), '+inf')) do alive[e] = true end
  for k = 1, #held, 2 do
    local number, holder = held[k], held[k + 1]
    local lost = not alive[holder]
    if holder == me then lost = reset and not mine[number] end
    if lost then
      local packed = call('HGET', P .. 'notice', number)
      call('HDEL', P .. 'noticeh', number) -- first: it needs no memory, and allows the next one (common.lua)
      if packed then call('ZADD', P .. 'noticed', text(${notice.due(packed)}), number) end
    end
  end
end

local ask = {}

-- the rules only
function ask.rules() end

-- a change of a rule: the number of its notices
function ask.put()
  there = call('ZCARD', P .. 'notice:' .. arg())
end

-- notices that are due, the first of them: the epoch of this node, after which silence a node
-- counts as dead, whether the node has lost what it took, how many, those that it has
function ask.take()
  local me, silent_ms, reset, most, mine = arg(), count(), arg() == '1', count(), {}
  while at <= #A do mine[arg()] = true end
  let_go(me, silent_ms, reset, mine)
  give(call('ZRANGEBYSCORE', P .. 'noticed', '-inf', text(now), 'LIMIT', 0, most))
  local first = call('ZRANGEBYSCORE', P .. 'noticed', '(' .. text(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if first[2] then next = first[2] end
end

-- conditions by alert and queue, breakers by name, notices by number
function ask.some()
  local fields, names, numbers = {}, {}, {}
  for k = 1, count() do
    local alert, queue = arg(), arg()
    fields[k] = alert .. '\0' .. queue
  end
  for k = 1, count() do names[k] = arg() end
  while at <= #A do numbers[#numbers + 1] = arg() end
  for _, packed in ipairs(mget('raised', fields)) do
    if packed then raised[#raised + 1] = packed end
  end
  there = call('HLEN', P .. 'raised')
  if #numbers > 0 then give(numbers) end
  for _, packed in ipairs(mget('breakern', names)) do
    if packed then breakers[#breakers + 1] = packed end
  end
  if #names > 0 then named = call('HLEN', P .. 'breakern') end
end

ask[what]()
return { text(now), meta[1] or '', version, version ~= known and call('HGETALL', P .. 'alert'), notices, next, breakers, named,
  raised, there }
