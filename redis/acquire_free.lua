-- Grants a key to an owner with a fencing token, in one request. If the key is taken, refuses it and optionally queues the owner.
-- A repeated request of the same owner gets the same reply.
--
-- KEYS: lock, queue, fence. ARGV: owner, TTL in ms, channel of the owner's process, 1 to queue.
-- Returns token or {token, owner, ms left, 1 if the owner was not in the queue before}.
--
-- The lock's value is "token:owner". Token 0 marks a reservation: the key is kept for a notified waiter. A member of the queue is
-- the waiter's inbox, 32 bytes, then the waiter's owner; its score orders the queue. A channel is a prefix, then an inbox.
--
-- Lua costs the server more than the commands do. So the usual case comes first, before any function is made, and numbers stay
-- text where they can.

local call = redis.call
local lock, queue, fence, owner, ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local replaced -- the counter's previous value, if this block has overwritten the counter; an error if SET failed

local used = call('EXISTS', lock, queue) > 0
local value = used and call('GET', lock)
if not used or value == '0:' .. owner then
  local now = call('TIME')
  local token = now[1] .. string.sub('00000' .. now[2], -6)
  -- Fails before Redis 6.2, and on a full server.
  replaced = redis.pcall('SET', fence, token, 'PX', '86400000', 'GET')
  if not replaced or #replaced == #token and replaced < token then
    call('SET', lock, token .. ':' .. owner, 'PX', ttl)
    return token
  end
end
