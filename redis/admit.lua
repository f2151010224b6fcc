
-- admit makes readers of a shared waiter just removed from the queue and of those right behind it, for a reservation
-- each, and notifies them. The key must be free or held by readers.
local function admit(channel, member, score)
  local now = clock()
  while member and string.sub(member, 1, 1) == 's' do
    local waiter = string.sub(member, 34)
    call('ZADD', lock, now + RESERVATION, '0:' .. waiter)
    notify(channel, string.sub(member, 2, 33), waiter)
    member, score = unpack(call('ZPOPMIN', queue))
  end
  follow(lock, now)
  if member then
    call('ZADD', queue, score, member)
    call('PEXPIRE', queue, '60000')
  end
end

-- advance lets in the waiters that nothing is in the way of, if no exclusive lease holds the key. It reports whether
-- the queue was empty.
--
-- While readers hold the key, an exclusive waiter is first in the queue, and only its requests extend the queue's
-- expiry. If it has sent none for 3 s it is dead, and must not hold up the readers behind it until those in front of it
-- have ended.
local function advance(channel)
  local first, score = unpack(call('ZRANGE', queue, 0, 0, 'WITHSCORES'))
  if not first then return true end
  local shared = string.sub(first, 1, 1) == 's'
  if not shared and call('EXISTS', lock) == 1 then
    if call('PTTL', queue) > 57000 then return false end
    call('ZPOPMIN', queue)
    call('PEXPIRE', queue, '60000') -- the next one has 3 s too
    return advance(channel)
  end
  call('ZPOPMIN', queue)
  if shared then admit(channel, first, score) else reserve(channel, first) end
  return false
end
