
local RESERVATION = '500' -- ms for which a key is kept for a notified waiter

-- notify wakes a waiter's process. The message may be lost or forbidden: timers back it.
local function notify(channel, inbox, waiter)
  redis.pcall('PUBLISH', string.sub(channel, 1, -33) .. inbox, waiter)
end

-- reserve keeps a key for an exclusive waiter just removed from its queue, and notifies it. No other may hold the key.
local function reserve(channel, member)
  local waiter = string.sub(member, 33)
  call('SET', lock, '0:' .. waiter, 'PX', RESERVATION)
  notify(channel, string.sub(member, 1, 32), waiter)
end
