-- Arguments: the time or '', our epoch, our node number, how long a leader leads, how long a silent node
-- counts, whether we may lead. Answers the time, how many others live, the leader's epoch if it is us.
call('DEL', P .. 'nothing') -- a first write that needs no memory: the others are then let through
local now, me, number, lead_ms, alive_ms = clock(arg()), arg(), arg(), count(), count()
for _, old in ipairs(call('ZRANGEBYSCORE', P .. 'nodes', '-inf', text(now - 86400000))) do
  if old ~= me then
    call('ZREM', P .. 'nodes', old)
    call('HDEL', P .. 'node', old)
  end
end
call('ZADD', P .. 'nodes', text(now), me)
call('HSET', P .. 'node', me, number)
local others = call('ZCOUNT', P .. 'nodes', '(' .. text(now - alive_ms), '+inf') - 1
local leader = call('HMGET', P .. 'meta', 'leader', 'leader_until', 'leader_epoch')
local epoch = tonumber(leader[3] or '0')
if leader[1] ~= me and leader[1] and tonumber(leader[2]) > now then return { text(now), others, false } end
if leader[1] ~= me then epoch = epoch + 1 end
call('HSET', P .. 'meta', 'leader', me, 'leader_until', text(now + lead_ms), 'leader_epoch', text(epoch))
return { text(now), others, text(epoch) }
