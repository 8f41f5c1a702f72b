-- What groups of queues with limits (limits.lua) use. Arguments: how many; then queue, group, order and sequence of a ready
-- job, or ''. Returns of each: queue, group, running jobs of the queue, bucket and round of the queue, running jobs of the
-- group, its bucket, how many jobs of the group come before this one, whether the order of the queue is complete.
local out = {}
for _ = 1, count() do
  local n, group, member = arg(), arg(), arg()
  local l = limits_of(n)
  if l then
    local begin, before = own(group), 0
    if l.ordered and member ~= '' then before = call('ZLEXCOUNT', l.key .. 'r', '[' .. begin, '(' .. begin .. member) end
    for _, v in ipairs({ n, group, call('ZCARD', l.key .. '${running}'), l.use, count_of(l.key .. 's', group),
      text(tonumber(call('ZSCORE', l.key .. 't', group) or '0')), before, 1 - call('SISMEMBER', P .. 'ordering', n) }) do
      out[#out + 1] = v
    end
  end
end
return out
