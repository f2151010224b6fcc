
local held = call('MGET', lock)[1] -- by an exclusive lease, or reserved for one
local last = not held and call('ZRANGE', lock, -1, -1)[1]
local removed = held and 0 or call('ZREM', lock, expected)
local used = removed == 1 and call('EXISTS', lock, queue)
if used == 0 or used == 1 and last ~= expected then return 1 end
