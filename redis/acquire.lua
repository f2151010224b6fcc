-- Grants a key to an owner with a fencing token, in one request; or refuses, and queues the owner if asked to.
-- Sent again by the same owner it answers the same.
--
-- KEYS: lock, queue, fence. ARGV: owner, TTL in ms, inbox, channel prefix, most deputies, 1 to queue.
-- Returns {1, token} or {0, token, owner, ms left, 1 if the owner was not in the queue before}.

local lock, queue, fence = KEYS[1], KEYS[2], KEYS[3]
local me, ttl, inbox, channel, deputies = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local queueing = ARGV[6] == '1'

-- mint returns max(last + 1, server time in us): it grows with the counter while that lives, and with the clock when it
-- was lost. The counter expires no sooner than the clock has passed it.
local function mint()
  local now = redis.call('TIME')
  local clock = tonumber(now[1]) * 1000000 + tonumber(now[2])
  local token = math.max((tonumber(redis.call('GET', fence) or 0) or 0) + 1, clock)
  local keep = FENCE_KEEP + math.ceil((token - clock) / 1000)
  redis.call('SET', fence, string.format('%.0f', token), 'PX', string.format('%.0f', keep))
  return token
end

-- enqueue gives the owner a turn unless it has one, and reports 1 if it had none.
local function enqueue()
  if not queueing then return 0 end
  local turn = redis.call('INCR', fence)
  if turn < 1000000000000000 then turn = mint() end -- the counter was lost
  local added = redis.call('ZADD', queue, 'NX', string.format('%.0f', turn), inbox .. me)
  redis.call('PEXPIRE', queue, QUEUE_KEEP)
  return added
end

local value = redis.call('GET', lock)
if value then
  local token, renewal, owner = parse(value)
  if not token or owner ~= me then
    return {0, token or '0', owner, redis.call('PTTL', lock), enqueue()}
  end
  if token ~= '0' then
    -- The first request's answer was lost. It must not cut short what a renewal has granted since.
    if renewal == '0' and redis.call('PTTL', lock) < tonumber(ttl) then redis.call('PEXPIRE', lock, ttl) end
    return {1, token}
  end
else
  local first = redis.call('ZPOPMIN', queue)[1]
  if first and first ~= inbox .. me then
    local added = enqueue()
    reserve(lock, queue, channel, deputies, first)
    return {0, '0', string.sub(first, 33), RESERVATION, added}
  end
end
local token = string.format('%.0f', mint())
redis.call('SET', lock, token .. ':0:' .. me, 'PX', ttl)
return {1, token}
