-- What acquire_free.lua leaves over: the key is held, reserved or waited for.

local inbox, queueing = ARGV[3], ARGV[6] == '1'

-- enqueue gives the owner a turn unless it has one, and reports 1 if it had none. A queue is forgotten a minute after the
-- last sign of life of any of its waiters.
local function enqueue()
  if not queueing then return 0 end
  local turn = call('INCR', fence)
  if turn < 1000000000000000 then turn = mint() end -- the counter was lost
  local added = call('ZADD', queue, 'NX', turn, inbox .. me)
  call('PEXPIRE', queue, '60000')
  return added
end

if value == '0:0:' .. me then return grant() end -- its turn has come
if value then
  local token, renewal, owner = parse(value)
  if token and owner == me then
    -- The first request's answer was lost. It must not cut short what a renewal has granted since.
    if renewal == '0' and call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
    return {1, token}
  end
  -- A waiter needs no better than the most that a reservation may last.
  local left = token == '0' and queueing and tonumber(RESERVATION) or call('PTTL', lock)
  return {0, token or '0', owner, left, enqueue()}
elseif first ~= inbox .. me then
  local added = enqueue()
  reserve(lock, queue, ARGV[4], ARGV[5], first)
  return {0, '0', string.sub(first, 33), tonumber(RESERVATION), added}
end
return grant()
