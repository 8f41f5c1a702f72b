-- The schedules of a unit, by name, before anything else can be loaded. Arguments: the time or '',
-- the epoch of this node, for how long it asks for a pause, names. Returns the time, the number of
-- stores, the number of schedules, their last number and change, the schedules with whether their
-- last job waits or runs, and source and target of triggers.
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
