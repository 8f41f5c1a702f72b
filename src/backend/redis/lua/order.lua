-- A step that builds the order of a queue with limits (limits.lua): its ready jobs by priority, behind those that it has
-- already. Arguments: queue; whether it begins, although the order is not there yet; how many; whether the jobs that run
-- are wanted, too. Returns the queue with its definition, up to which job the step has come, '' = to the end, the jobs
-- with their rows, and those that run.
local n, begins, limit, slots = arg(), arg() == '1', count(), arg() == '1'
local function rows_of(seqs)
  local rows, out = mget('row', seqs), {}
  for k = 1, #seqs do
    if rows[k] then
      out[#out + 1] = seqs[k]
      out[#out + 1] = rows[k]
    end
  end
  return out
end
local reached = not begins and call('HGET', P .. 'q:' .. n .. ':l', 'at')
local members = call('ZRANGEBYLEX', P .. 'q:' .. n .. ':${ready}', reached and '(' .. reached or '-', '+', 'LIMIT', 0, limit)
local seqs = {}
for k = 1, #members do seqs[k] = ${ready.seq(members[k])} end
if not queue(n) then call('SREM', P .. 'ordering', n) end
give_queue(n)
return { queues, #members == limit and members[#members] or '', rows_of(seqs),
  slots and rows_of(call('ZRANGE', P .. 'q:' .. n .. ':${running}', 0, -1)) or {} }
