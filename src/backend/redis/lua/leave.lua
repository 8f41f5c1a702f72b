-- Arguments: our epoch. The node stops: what it had taken goes back, and others need not wait for it.
call('DEL', P .. 'nothing')
local me = arg()
give_back(me)
end_wait(me)
call('ZREM', P .. 'nodes', me)
call('HDEL', P .. 'node', me)
if call('HGET', P .. 'meta', 'leader') == me then call('HDEL', P .. 'meta', 'leader', 'leader_until') end
return 1
