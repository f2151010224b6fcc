-- Removes a key from this node if an owner of this name holds it, whatever the random part before it.
--
-- KEYS: lock. ARGV: name, length of the random part. Returns 1 removed, 0 nothing of it here.

local _, _, owner = parse(redis.call('GET', KEYS[1]))
if not owner or string.sub(owner, ARGV[2] + 1) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
