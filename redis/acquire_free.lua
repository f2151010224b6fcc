-- Grants a key to an owner with a fencing token, in one request; or refuses, and queues the owner if asked to.
-- Sent again by the same owner it answers the same.
-- This part comes before all that a free key's grant does not need, because the server would make that each time.
--
-- KEYS: lock, queue, fence. ARGV: owner, TTL in ms, how to tell waiters, 1 to queue.
-- Returns token or {token, owner, ms left, 1 if the owner was not in the queue before}.

local call = redis.call
local lock, queue, fence = KEYS[1], KEYS[2], KEYS[3]
local me, ttl = ARGV[1], ARGV[2]

local value = call('GET', lock)
local first = not value and call('ZPOPMIN', queue)[1]
if not value and not first then
  -- What mint returns while the clock does not step back, with numbers that stay text: of one length they compare as text.
  local now, last = call('TIME'), call('GET', fence)
  local token = now[1] .. string.sub('00000' .. now[2], -6)
  if not last or #last == #token and last < token then
    call('SET', fence, token, 'PX', '86400000')
    call('SET', lock, token .. ':0:' .. me, 'PX', ttl)
    return token
  end
end
