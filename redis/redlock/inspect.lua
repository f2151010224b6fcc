-- Returns who holds a key at this node, and the number of the owner's last request. It changes nothing.
--
-- KEYS: lock. Returns {token, owner, ms left, number}, or {} for a free key.

local token, number, owner = parse(redis.call('GET', KEYS[1]))
if not owner then return {} end
return {token, owner, redis.call('PTTL', KEYS[1]), number}
