-- Removes a key from this node if the owner holds it by a request up to the given number.
--
-- KEYS: lock. ARGV: owner, number. Returns 1 if removed, 0 if there was nothing to remove.

local _, number, owner = parse(redis.call('GET', KEYS[1]))
if owner ~= ARGV[1] or number > tonumber(ARGV[2]) then return 0 end
return redis.call('DEL', KEYS[1])
