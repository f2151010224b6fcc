
-- MGET returns no value for a sorted set, where GET fails.
local used = call('EXISTS', lock, queue)
local value = used > 0 and call('MGET', lock)[1]
if used == 0 or value == '0:' .. owner then
  local now = call('TIME')
  local token = now[1] .. string.sub('00000' .. now[2], -6)
  -- Fails before Redis 6.2, and on a full server.
  replaced = redis.pcall('SET', fence, token, 'PX', '86400000', 'GET')
  if not replaced or #replaced == #token and replaced < token then
    call('SET', lock, token .. ':' .. owner, 'PX', ttl)
    return token
  end
end
