-- Grants a key to an owner with a fencing token, in one request; or refuses, and queues the owner if asked to.
-- Sent again by the same owner it answers the same.
--
-- KEYS: lock, queue, fence. ARGV: owner, TTL in ms, how to tell waiters, 1 to queue.
-- Returns token or {token, owner, ms left, 1 if the owner was not in the queue before}.

local lock, queue, fence = KEYS[1], KEYS[2], KEYS[3]
local me, ttl, told, queueing = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local inbox = string.sub(told, 1, 32)

-- write is the first command of a run that makes something. A server that is full refuses it, but not after one that makes
-- nothing: leases and waiters are small, and what they protect goes on.
local function write(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  call('ZREM', queue, '')
  return call(...)
end

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
  write('SET', fence, token, 'PX', keep)
  return token
end

local function grant()
  local token = mint()
  call('SET', lock, token .. ':0:' .. me, 'PX', ttl)
  return token
end

-- enqueue gives the owner a turn unless it has one, and reports 1 if it had none. A queue is forgotten a minute after the
-- last sign of life of any of its waiters.
local function enqueue()
  if not queueing then return 0 end
  local turn = write('INCR', fence)
  if turn < 1000000000000000 then turn = mint() end -- the counter was lost
  local added = call('ZADD', queue, 'NX', turn, inbox .. me)
  call('PEXPIRE', queue, '60000')
  return added
end

local value = call('GET', lock)
local first = not value and call('ZPOPMIN', queue)[1]
if value == '0:0:' .. me then return grant() end -- its turn has come
if value then
  local token, renewal, owner = parse(value)
  if token and owner == me then
    -- The first request's answer was lost. It must not cut short what a renewal has granted since.
    if renewal == '0' and call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
    return token
  end
  -- A waiter needs no better than the most that a reservation may last.
  local left = token == '0' and queueing and tonumber(RESERVATION) or call('PTTL', lock)
  return {token or '0', owner, left, enqueue()}
elseif first and first ~= inbox .. me then
  local added = enqueue()
  reserve(lock, queue, told, first)
  return {'0', string.sub(first, 33), tonumber(RESERVATION), added}
end
return grant()
