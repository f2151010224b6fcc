-- Returns who holds a key, and changes nothing.
--
-- KEYS: lock, queue. Returns {token, owner, ms left, number of waiters}, or {} for a free key.

local value = redis.call('GET', KEYS[1])
if not value then return {} end
local token, owner = string.match(value, '^(%d+):(.*)$')
return {token or '0', owner or value, redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2])}
