-- A slice of the work list of dependencies (shared/dependencies.h): edges of jobs that have ended, with their dependents.
-- One node at a time works on the list, so that nodes do not store changes of the same dependents against each other. It
-- keeps the key depo until the list is empty, or for a time after its last slice.
-- Arguments: the time or '', the epoch of this node, how many entries, how many edges, for how long. Returns the time, whether
-- there is a slice, and then the number of stores, queues, entries, edges (how the end counts, dependent, parent), the
-- dependents with their rows, what they depend on, and the version of the alert rules.
local now, me, entries, most, keep_ms = clock(arg()), arg(), count(), count(), arg()
call('DEL', P .. 'nothing') -- a first write that needs no memory (common.lua)
local by = call('GET', P .. 'depo')
if by and by ~= me then return { text(now), 'busy' } end
local list = call('ZRANGE', P .. 'depl', 0, entries - 1)
if #list == 0 then
  call('DEL', P .. 'depo')
  return { text(now), 'none' }
end
call('SET', P .. 'depo', me, 'PX', keep_ms)

local worked, edges, children, seen, left = {}, {}, {}, {}, most
local function add(how, child, parent)
  local k = #edges
  edges[k + 1], edges[k + 2], edges[k + 3] = how, child, parent
  left = left - 1
  if not seen[child] then
    seen[child] = true
    children[#children + 1] = child
  end
end
local hows = mget('depw', list)
for k = 1, #list do
  local n = text(${seq.number(list[k])})
  if left <= 0 then break end
  for _, child in ipairs(call('SRANDMEMBER', P .. 'dp:' .. n, left)) do add(hows[k] or '0', child, list[k]) end
  if left > 0 then
    for _, parent in ipairs(call('SRANDMEMBER', P .. 'dc:' .. n, left)) do add('0', list[k], parent) end
  end
  worked[#worked + 1] = list[k]
end

local rows, dependents = {}, {}
local got, packed = mget('row', children), mget('dep', children)
for k = 1, #children do
  if got[k] then
    rows[#rows + 1] = children[k]
    rows[#rows + 1] = got[k]
    give_queue(queue_of(got[k]))
    if packed[k] then
      dependents[#dependents + 1] = children[k]
      dependents[#dependents + 1] = packed[k]
    end
  end
end
local meta = call('HMGET', P .. 'meta', 'ver', 'alerts')
return { text(now), 'ok', meta[1] or '', queues, worked, edges, rows, dependents, meta[2] or '' }
