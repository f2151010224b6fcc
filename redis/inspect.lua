
-- Returns who holds a key, and changes nothing.
--
-- KEYS: lock, queue. ARGV: the owner whose shared lease to return; without it, or if there is none, the lease that ends
-- last. Returns {token, owner, ms left, number of waiters, number of shared leases}, or {} for a free key.

local lock, waiters = KEYS[1], call('ZCARD', KEYS[2])
local value = call('MGET', lock)[1]
if not value then return describe(lock, ARGV[1] and find(lock, ARGV[1]), waiters) end
local token, owner = string.match(value, '^(%d+):(.*)$')
return {token or '0', owner or value, call('PTTL', lock), waiters, 0}
