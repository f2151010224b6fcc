
local channel, queueing = ARGV[3], ARGV[4] == '1'
local member = string.sub(channel, -32) .. owner

-- write runs the first command of a run that needs memory. A full server refuses such a command, but not after another write:
-- leases and waiters are small, and the work that they protect must go on.
local function write(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  call('ZREM', queue, '')
  return call(...)
end

-- nextToken returns max(last + 1, server time in us), as text: it increases with the counter while that exists, and with the
-- clock after the counter was lost. The counter expires no sooner than a day after the clock has passed it.
local function nextToken()
  local now = call('TIME')
  local token, keep = now[1] .. string.sub('00000' .. now[2], -6), '86400000'
  local last = type(replaced) == 'string' and replaced or call('GET', fence)
  local clock = tonumber(token)
  last = tonumber(last or 0) or 0
  if last >= clock then -- the clock has stepped back
    token = string.format('%.0f', last + 1)
    keep = string.format('%.0f', keep + math.ceil((last + 1 - clock) / 1000))
  end
  write('SET', fence, token, 'PX', keep)
  return token
end

local function grant()
  local token = nextToken()
  call('SET', lock, token .. ':' .. owner, 'PX', ttl)
  return token
end

-- enqueue adds the owner to the queue and reports 1 if it was not there. The queue expires a minute after the last request of
-- any of its waiters.
local function enqueue()
  if not queueing then return 0 end
  local order = write('INCR', fence)
  if order < 1000000000000000 then order = nextToken() end -- the counter was lost
  local added = call('ZADD', queue, 'NX', order, member)
  call('PEXPIRE', queue, '60000')
  return added
end

if value and value ~= '0:' .. owner then
  local token, holder = string.match(value, '^(%d+):(.*)$')
  if holder == owner then
    -- The reply to the first request was lost. This one must not shorten what a renewal has granted since.
    if call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
    return token
  end
  -- A waiter needs only the upper limit of a reservation.
  local left = token == '0' and queueing and tonumber(RESERVATION) or call('PTTL', lock)
  return {token or '0', holder or value, left, enqueue()}
end
local first = not value and call('ZPOPMIN', queue)[1]
if not first or first == member then return grant() end
local added = enqueue()
reserve(lock, channel, first)
return {'0', string.sub(first, 33), tonumber(RESERVATION), added}
