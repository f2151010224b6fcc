-- Shared by the scripts that follow it.
--
-- A lock's value is "token:renewal:owner": the fencing token, the number of the last renewal, and who holds it. Token 0
-- marks a reservation: the key is kept, shortly, for a waiter that has been told to come. A member of a queue is the
-- inbox of the waiter's process, 32 bytes, then the waiter's owner; its score is its turn.

local RESERVATION = 500   -- ms for which a key is kept for a waiter that has been told
local QUEUE_KEEP = 60000  -- ms after the last sign of life of any of its waiters that a queue is forgotten
local FENCE_KEEP = 86400000 -- ms by which a fence outlives the moment when the clock alone passes its last token

-- parse returns token, renewal, owner; token is nil for a value that is not ours, all are nil for none.
local function parse(value)
  if not value then return nil end
  local a = string.find(value, ':', 1, true)
  local b = a and string.find(value, ':', a + 1, true)
  if not b then return nil, nil, value end
  return string.sub(value, 1, a - 1), string.sub(value, a + 1, b - 1), string.sub(value, b + 1)
end

-- tell sends a hint to a waiter, and reports whether it is known to hear: a cluster's server counts only those who have
-- subscribed to itself. The hint may go astray, or be forbidden: timers back it.
local function tell(channel, member, what)
  local heard = redis.pcall('PUBLISH', channel .. string.sub(member, 1, 32), what .. string.sub(member, 33))
  return type(heard) == 'number' and heard > 0
end

-- reserve keeps the key for a waiter just taken off the queue, and tells it to come. A deputy, the next in the queue that
-- is known to hear, is told to see after the reservation whether it did.
local function reserve(lock, queue, channel, deputies, member)
  redis.call('SET', lock, '0:0:' .. string.sub(member, 33), 'PX', RESERVATION)
  tell(channel, member, 'go:')
  for _, deputy in ipairs(redis.call('ZRANGE', queue, 0, deputies - 1)) do
    if tell(channel, deputy, RESERVATION .. ':') then break end
  end
end

-- hand_over reserves a key that has no holder for its first waiter, and reports whether there is one.
local function hand_over(lock, queue, channel, deputies)
  local first = redis.call('ZPOPMIN', queue)[1]
  if not first then return false end
  reserve(lock, queue, channel, deputies, first)
  return true
end
