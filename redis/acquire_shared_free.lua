
-- The usual case: the key is free, or readers hold it and nobody waits.
local used = call('EXISTS', lock, queue)
local value = used > 0 and call('MGET', lock)[1]
-- None if used counts the queue.
local last = used == 1 and not value and call('ZRANGE', lock, -1, -1, 'WITHSCORES')[2]
if ARGV[5] == '0' and (used == 0 or last) then
  local now = call('TIME')
  local token = now[1] .. string.sub('00000' .. now[2], -6)
  replaced = redis.pcall('SET', fence, token, 'PX', '86400000', 'GET')
  if not replaced or #replaced == #token and replaced < token then
    local ends = now[1] * 1000 + math.floor(now[2] / 1000) + ttl
    call('ZADD', lock, ends, token .. ':' .. owner)
    if not last or tonumber(last) < ends then call('PEXPIRE', lock, ttl) end
    return token
  end
end
