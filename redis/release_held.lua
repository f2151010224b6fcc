-- Removes what is kept of an owner, its lease, its reservation or its place in the queue, and hands the key on.
-- This part comes before all that the release of a lease does not need that nobody waits for.
--
-- KEYS: lock, queue. ARGV: what the lock's value was before the first renewal, with token 0 if there may be no lease; how to tell
-- waiters.
-- Returns 1 if there was anything of this owner, 0 if not; 2 more if the key is now kept for a waiter.

local call = redis.call
local lock, queue = KEYS[1], KEYS[2]

local value = call('GET', lock)
local first
if value == ARGV[1] then
  first = call('ZPOPMIN', queue)[1]
  if not first then
    call('DEL', lock)
    return 1
  end
end
