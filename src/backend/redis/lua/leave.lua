-- Arguments: the epoch of this node. The node stops: the jobs that it holds are released, and
-- others need not wait for it, nor for its work on dependencies.
call('DEL', P .. 'nothing')
local me = arg()
give_back(me)
end_wait(me)
if call('GET', P .. 'depo') == me then call('DEL', P .. 'depo') end
call('ZREM', P .. 'nodes', me)
call('HDEL', P .. 'node', me)
if call('HGET', P .. 'meta', 'leader') == me then call('HDEL', P .. 'meta', 'leader', 'leader_until') end
return 1
