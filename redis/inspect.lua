-- Tells who holds a key, changing nothing.
--
-- KEYS: lock, queue. Returns {token, owner, ms left, number of waiters}, or {} for a free key.

local token, _, owner = parse(redis.call('GET', KEYS[1]))
if not owner then return {} end
return {token or '0', owner, redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2])}
