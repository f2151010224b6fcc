
local owner = string.match(expected, '^%d+:(.*)$')
local waiter = 's' .. string.sub(channel, -32) .. owner
if removed == 0 then removed = call('ZREM', queue, waiter) end
if held then return removed end
local reader = removed == 0 and find(lock, owner)
if reader then removed = call('ZREM', lock, reader) end
follow(lock, now)
advance(channel)
return removed
