-- Tells who holds a key at this node, changing nothing.
--
-- KEYS: lock. Returns {token, owner, ms left}, or {} for a free key.

local token, _, owner = parse(redis.call('GET', KEYS[1]))
if not owner then return {} end
return {token, owner, redis.call('PTTL', KEYS[1])}
