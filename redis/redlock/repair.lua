-- Puts a lease that a quorum has just renewed, and its fence, back on a node that has lost them. The node does not
-- count before the next renewal.
--
-- KEYS: lock, fence. ARGV: owner, time to keep the lease in ms, number of the request, token.
-- Returns 1 if the node has the lease, by this request or an earlier one, 0 if another owner has the key.

local _, _, owner = parse(redis.call('GET', KEYS[1]))
if owner then return owner == ARGV[1] and 1 or 0 end
local counter = tonumber(redis.call('GET', KEYS[2]) or 0) or 0
redis.call('SET', KEYS[2], whole(math.max(counter, tonumber(ARGV[4]))))
redis.call('SET', KEYS[1], ARGV[4] .. ':' .. ARGV[3] .. ':' .. ARGV[1], 'PX', ARGV[2])
return 1
