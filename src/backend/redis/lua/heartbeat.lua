-- Arguments: the time or '', the epoch of this node, its number and version for other nodes, how
-- long a leader keeps its lease, after which silence a node counts as dead, the key at which the
-- leader shows itself or '', and its number. Returns the time, the number of other nodes, the
-- leader's epoch if this node is the leader; the leader, the end of its lease and its epoch; nodes
-- with the time of their last heartbeat, and what they announced; whether the work list of dependencies has entries.
call('DEL', P .. 'nothing') -- a first write that needs no memory (common.lua)
local now, me, told, lead_ms, alive_ms = clock(arg()), arg(), arg(), count(), count()
local shown_at, number = arg(), arg()
for _, old in ipairs(call('ZRANGEBYSCORE', P .. 'nodes', '-inf', text(now - 86400000))) do
  if old ~= me then
    call('ZREM', P .. 'nodes', old)
    call('HDEL', P .. 'node', old)
  end
end
-- This node has nothing in progress now, so jobs that it holds belong to a connection that was
-- lost. Loads release them, too, but not those of a node that is alone, or that gets no requests.
give_back(me)
for _, late in ipairs(call('ZRANGEBYSCORE', P .. 'holds', '-inf', text(now))) do give_back(late) end
end_wait(me) -- a unit that needs the pause asks for it again
call('ZADD', P .. 'nodes', text(now), me)
call('HSET', P .. 'node', me, told)
local others = call('ZCOUNT', P .. 'nodes', '(' .. text(now - alive_ms), '+inf') - 1
local leader = call('HMGET', P .. 'meta', 'leader', 'leader_until', 'leader_epoch')
local mine = false
if leader[1] == me or not leader[1] or tonumber(leader[2]) <= now then
  local epoch = tonumber(leader[3] or '0')
  if leader[1] ~= me then epoch = epoch + 1 end
  mine = text(epoch)
  leader = { me, text(now + lead_ms), mine }
  call('HSET', P .. 'meta', 'leader', me, 'leader_until', leader[2], 'leader_epoch', mine)
  if shown_at ~= '' then redis.pcall('SET', shown_at, 'node ' .. number .. ' epoch ' .. mine, 'PX', text(lead_ms)) end
end
local nodes = call('ZREVRANGE', P .. 'nodes', 0, 63, 'WITHSCORES')
local epochs = {}
for k = 1, #nodes, 2 do epochs[#epochs + 1] = nodes[k] end
return { text(now), others, mine, leader, nodes, mget('node', epochs), call('EXISTS', P .. 'depl') }
