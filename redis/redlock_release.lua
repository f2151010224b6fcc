-- Removes a key from this node if the owner holds it.
--
-- KEYS: lock. ARGV: owner. Returns 1 removed, 0 nothing of it here.

local _, _, owner = parse(redis.call('GET', KEYS[1]))
if owner ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
