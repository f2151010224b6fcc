
local channel, queueing = ARGV[3], ARGV[4] == '1'
local member = (ARGV[5] and 's' or '') .. string.sub(channel, -32) .. owner

-- write runs the first command of a run that needs memory. A full server refuses such a command, but not after another
-- write: leases and waiters are small, and the work that they protect must go on.
local function write(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  call('ZREM', queue, '')
  return call(...)
end

-- nextToken returns max(last + 1, server time in us), as text: it increases with the counter while that exists, and
-- with the clock after the counter was lost. The counter expires no sooner than a day after the clock has passed it.
local function nextToken(now)
  now = now or call('TIME')
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

-- enqueue adds the owner to the queue and reports 1 if it was not there. The queue expires a minute after the last
-- request of any of its waiters; while readers hold the key, after that of the first one.
local function enqueue(readers)
  if not queueing then return 0 end
  local order = write('INCR', fence)
  if order < 1000000000000000 then order = nextToken() end -- the counter was lost
  local added = call('ZADD', queue, 'NX', order, member)
  if not readers or call('ZRANGE', queue, 0, 0)[1] == member then call('PEXPIRE', queue, '60000') end
  return added
end

-- refuse returns the reply to a request for a key that has this value.
local function refuse(value)
  local token, holder = string.match(value, '^(%d+):(.*)$')
  -- A waiter needs only the upper limit of a reservation.
  local left = token == '0' and queueing and tonumber(RESERVATION) or call('PTTL', lock)
  return {token or '0', holder or value, left, enqueue(), 0}
end
