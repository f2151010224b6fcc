-- Removes the lease, reservation or queue entry of an owner, and hands the key to the first waiter.
--
-- KEYS: lock, queue. ARGV: the lock's value, with token 0 if the owner may have no lease; channel of the owner's process.
-- Returns 1 if there was anything of this owner, 0 if not.

local call = redis.call
local lock, queue, expected = KEYS[1], KEYS[2], ARGV[1]
local value = call('GET', lock)
if value == expected and call('EXISTS', queue) == 0 then
  call('DEL', lock)
  return 1
end
