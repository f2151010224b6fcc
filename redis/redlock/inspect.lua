-- Returns who holds a key at this node, and the number of the owner's last request. It changes nothing.
--
-- KEYS: lock. Returns {token, owner, ms left, number}. The owner of a free key is empty.

local token, number, owner = parse(redis.call('GET', KEYS[1]))
return {token or '0', owner or '', redis.call('PTTL', KEYS[1]), number or 0}
