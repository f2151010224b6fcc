-- Shared by the scripts that follow it.
--
-- A lock's value is "token:renewal:owner": the fencing token, the number of the last renewal, and who holds it. Token 0
-- marks a reservation: the key is kept, shortly, for a waiter that has been told to come. A member of a queue is the
-- inbox of the waiter's process, 32 bytes, then the waiter's owner; its score is its turn.
--
-- A script costs the server more than the commands in it. So numbers stay text where they can, because to turn one into
-- text costs as much as a command, and functions that few runs need are made only where they are needed.

local call = redis.call
local RESERVATION = '500' -- ms for which a key is kept for a waiter that has been told

-- parse returns token, renewal, owner; token is nil for a value that is not ours, all are nil for none.
local function parse(value)
  if not value then return nil end
  local token, renewal, owner = string.match(value, '^(%d+):(%d+):(.*)$')
  return token, renewal, owner or value
end

-- reserve keeps a key that has no holder for a waiter just taken off its queue, and tells it to come. A deputy, the next
-- in the queue that is known to hear, is told to see after the reservation whether it did.
--
-- How to tell waiters is one text: the inbox of whoever asks, 32 bytes, the most deputies, 2 digits, and what the names of
-- channels begin with.
local function reserve(lock, queue, told, member)
  local deputies, channel = string.sub(told, 33, 34), string.sub(told, 35)
  -- tell sends a hint to a waiter, and reports whether it is known to hear: a cluster's server counts only those who have
  -- subscribed to itself. The hint may go astray, or be forbidden: timers back it.
  local function tell(whom, what)
    local heard = redis.pcall('PUBLISH', channel .. string.sub(whom, 1, 32), what .. string.sub(whom, 33))
    return type(heard) == 'number' and heard > 0
  end

  call('SET', lock, '0:0:' .. string.sub(member, 33), 'PX', RESERVATION)
  -- The server writes last to whom it was told to write first: the deputy has time.
  local deputy = call('ZRANGE', queue, '0', '0')[1]
  if deputy and not tell(deputy, RESERVATION .. ':') then
    for _, other in ipairs(call('ZRANGE', queue, '1', deputies - 1)) do
      if tell(other, RESERVATION .. ':') then break end
    end
  end
  tell(member, 'go:')
end
