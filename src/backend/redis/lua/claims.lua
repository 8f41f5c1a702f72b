-- Placed before load.lua, behind places.lua, for claims on queues with limits at the claim.

-- Groups whose token is there, or whose limits have changed, find their place again, the first ones. Returns whether
-- there may be more of them.
local function place_due(l, now_us)
  local due = call('ZRANGEBYSCORE', l.key .. 'w', '-inf', text(now_us), 'LIMIT', 0, ${slice})
  call('DEL', P .. 'nothing') -- a first write that needs no memory (common.lua)
  local now = {}
  for k = 1, #due do now[k] = 0 end
  write('ZREM', l.q .. 'w', due)
  place(l, due, {}, now)
  return #due == ${slice}
end

-- Of an ordered queue: its first groups that may start a job, each with its first jobs. A group that is found to have no
-- free slot, because the limit is lower now, goes where it belongs.
local function first_groups(l, want, with_bodies)
  local places = {}
  for _ = 1, math.max(1, math.floor(256 / want)) do
    local closed = {}
    places = call('ZRANGE', l.key .. 'p', 0, want - 1)
    for k, member in ipairs(places) do
      local group = sub(member, ${place_bytes} + 1)
      local running = l.most > 0 and count_of(l.key .. 's', group) or 0
      if l.most > 0 and running >= l.most then
        closed[#closed + 1] = group
      end
      places[k] = { group, running, ${place.round.bytes(member)} }
    end
    if #closed == 0 then break end
    call('DEL', P .. 'nothing')
    place(l, closed, {}, {})
  end
  local each = #places > 0 and math.max(1, min(want, math.floor(4 * want / #places)))
  local groups, seqs = {}, {}
  for _, one in ipairs(places) do
    local jobs = first_of(l, one[1], each)
    for j = 1, #jobs do seqs[#seqs + 1] = sub(jobs[j], -${seq_bytes}) end
    local base = #groups
    groups[base + 1], groups[base + 2], groups[base + 3] = one[1], one[2], one[3]
    groups[base + 4] = l.tokens and call('ZSCORE', l.key .. 't', one[1]) or '0'
    groups[base + 5] = #jobs == each and 1 or 0
  end
  with_bodies(seqs)
  return groups, #places == want
end

-- Adds what a queue uses, if it has limits: queue, running jobs, bucket and round, when the next group gets a token,
-- whether there may be more groups, groups: group, running jobs, round, bucket, whether it may have more jobs ...
-- Nothing is held: a store checks what it starts. Returns its limits.
usage = {}
give_usage = function(n, want, open, now, with_bodies)
  local l = limits_of(n)
  if not l then return l end
  local groups, more, next = {}, false, {}
  if l.ordered and open then
    next = call('ZRANGE', l.key .. 'w', 0, 0, 'WITHSCORES')
    if next[2] and tonumber(next[2]) <= now * 1000 then
      more = place_due(l, now * 1000)
      next = call('ZRANGE', l.key .. 'w', 0, 0, 'WITHSCORES')
    end
    local full
    groups, full = first_groups(l, want, with_bodies)
    more = more or full
  end
  for _, v in ipairs({ n, l.slots and call('ZCARD', l.key .. '${running}') or 0, l.use, next[2] and text(tonumber(next[2])) or '0',
    more and 1 or 0, groups }) do
    usage[#usage + 1] = v
  end
  return l
end

