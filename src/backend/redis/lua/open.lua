-- Arguments: the format of this version, a new hash key, whether this is a boot, the epoch that
-- must be exceeded.
local format_known, hash_key, boot, least = arg(), arg(), arg(), count()
local found = call('GET', P .. 'format')
if found and tonumber(found) > tonumber(format_known) then return { 'newer', found } end
if found and tonumber(found) < tonumber(format_known) then return { 'older', found } end
if redis.acl_check_cmd then
  local needed = {
    { 'SET', 'k', 'v' }, { 'HSET', 'k', 'f', 'v' }, { 'HMGET', 'k', 'f' }, { 'HGETALL', 'k' }, { 'HDEL', 'k', 'f' },
    { 'HINCRBY', 'k', 'f', '1' }, { 'ZADD', 'k', '0', 'm' }, { 'ZREM', 'k', 'm' }, { 'ZPOPMIN', 'k' },
    { 'ZRANGE', 'k', '0', '1' }, { 'ZRANGEBYLEX', 'k', '-', '+' }, { 'ZRANGEBYSCORE', 'k', '0', '1' }, { 'ZLEXCOUNT', 'k', '-', '+' }, { 'ZUNIONSTORE', 'k', '1', 'k' },
    { 'SADD', 'k', 'm' }, { 'SREM', 'k', 'm' }, { 'RPUSH', 'k', 'v' }, { 'LTRIM', 'k', '0', '1' },
    { 'DEL', 'k' }, { 'UNLINK', 'k' }, { 'RENAME', 'k', 'k' }, { 'EXPIRE', 'k', '1' }, { 'TIME' }, { 'WATCH', 'k' }, { 'MULTI' }, { 'EXEC' },
  }
  for _, words in ipairs(needed) do
    for k = 2, #words do
      if words[k] == 'k' then words[k] = P .. 'k' end
    end
    if not redis.acl_check_cmd(unpack(words)) then return { 'denied', words[1] } end
  end
end
local made = 0
if not found then
  call('SET', P .. 'format', format_known)
  made = 1
end
call('HSETNX', P .. 'meta', 'hash_key', hash_key)
call('HSETNX', P .. 'meta', 'ver', '1')
local epoch = tonumber(call('HGET', P .. 'meta', 'epoch') or '0')
if boot ~= '' or epoch < least then
  if epoch < least then epoch = least end
  if boot ~= '' then epoch = epoch + 1 end
  call('HSET', P .. 'meta', 'epoch', text(epoch))
end
return { 'ok', made, epoch, call('HGET', P .. 'meta', 'hash_key'), call('HGET', P .. 'meta', 'ver') }
