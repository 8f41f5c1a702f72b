-- The schedules a unit is about, by name, before anything else can be asked for. Arguments: the time or '',
-- our epoch, for how long we want to be alone, names. Answers the time, how often something was stored, how
-- many schedules there are, their last number and change, the schedules with whether their last job lives,
-- and where triggers take from and put to.
local now, me, quiet_ms = clock(arg()), arg(), count()
if must_wait(me, quiet_ms) then return { 'wait' } end
local meta = call('HMGET', P .. 'meta', 'ver', 'schedule_number', 'schedule_change')
local names, out = {}, {}
while at <= #A do names[#names + 1] = arg() end
for _, n in ipairs(mget('schedn', names)) do
  local packed = n and call('HGET', P .. 'sched', n)
  if packed then
    out[#out + 1] = packed
    out[#out + 1] = lives(${schedule.last_seq(packed)}) and 1 or 0
  end
end
return { text(now), meta[1] or '', call('HLEN', P .. 'sched'), meta[2] or '0', meta[3] or '0', out,
  call('HGETALL', P .. 'schedf') }
