-- Removes the lease, reservation or queue entry of an owner, and hands the key to the first waiter.
--
-- KEYS: lock, queue. ARGV: the lock's value or the reader's member, with token 0 if the owner may have no lease;
-- channel of the owner's process. Returns 1 if there was anything of this owner, 0 if not.

local call = redis.call
local lock, queue, expected, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
