
local held = call('MGET', lock)[1] -- by an exclusive lease, or reserved for one
local removed, now, last = 0
if not held then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  call('ZREMRANGEBYSCORE', lock, '-inf', now)
  last = call('ZRANGE', lock, -1, -1)[1]
  removed = call('ZREM', lock, expected)
end
local used = removed == 1 and call('EXISTS', lock, queue)
if used == 0 or used == 1 and last ~= expected then return 1 end -- the key is free, or expires with another reader
