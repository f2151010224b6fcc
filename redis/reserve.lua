
local RESERVATION = '500' -- ms for which a key is kept for a notified waiter

-- reserve keeps a free key for a waiter just removed from its queue, and notifies the waiter's process. The message may be lost
-- or forbidden: timers back it.
local function reserve(lock, channel, member)
  local waiter = string.sub(member, 33)
  call('SET', lock, '0:' .. waiter, 'PX', RESERVATION)
  redis.pcall('PUBLISH', string.sub(channel, 1, -33) .. string.sub(member, 1, 32), waiter)
end
