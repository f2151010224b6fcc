
local owner = string.match(expected, '^%d+:(.*)$')
local waiter = 's' .. string.sub(channel, -32) .. owner
if call('MGET', lock)[1] then -- an exclusive lease or waiter has the key
  return call('ZREM', queue, waiter)
end
local now = clock()
call('ZREMRANGEBYSCORE', lock, '-inf', now)
local removed = call('ZREM', lock, expected)
if removed == 0 then
  removed = call('ZREM', queue, waiter)
  local reader = find(lock, owner)
  if reader then removed = call('ZREM', lock, reader) end
end
follow(lock, now)
advance(channel)
return removed
