-- Grants a key to an owner with a fencing token, in one request; or refuses, and queues the owner if asked to.
-- Sent again by the same owner it answers the same.
-- This part comes before all that a free key's grant does not need, because the server would make that each time.
--
-- KEYS: lock, queue, fence. ARGV: owner, TTL in ms, inbox, channel prefix, most deputies, 1 to queue.
-- Returns {1, token} or {0, token, owner, ms left, 1 if the owner was not in the queue before}.

local call = redis.call
local lock, queue, fence = KEYS[1], KEYS[2], KEYS[3]
local me, ttl = ARGV[1], ARGV[2]

-- mint returns max(last + 1, server time in us), as text: it grows with the counter while that lives, and with the clock
-- when it was lost. The counter expires no sooner than a day after the clock has passed it.
local function mint()
  local now = call('TIME')
  local token, keep = now[1] .. string.sub('00000' .. now[2], -6), '86400000'
  local last, clock = tonumber(call('GET', fence) or 0) or 0, tonumber(token)
  if last >= clock then -- the clock has stepped back
    token = string.format('%.0f', last + 1)
    keep = string.format('%.0f', keep + math.ceil((last + 1 - clock) / 1000))
  end
  call('SET', fence, token, 'PX', keep)
  return token
end

local function grant()
  local token = mint()
  call('SET', lock, token .. ':0:' .. me, 'PX', ttl)
  return {1, token}
end

local value = call('GET', lock)
local first = not value and call('ZPOPMIN', queue)[1]
if not value and not first then return grant() end
