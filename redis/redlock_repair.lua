-- Puts a lease that a quorum has just renewed back on a node that has lost it, and the fence with it. It counts for nothing
-- before the next renewal.
--
-- KEYS: lock, fence. ARGV: owner, time to keep it in ms, number of the request, token. Returns 1 done, 0 the key is taken.

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local counter = tonumber(redis.call('GET', KEYS[2]) or 0) or 0
redis.call('SET', KEYS[2], whole(math.max(counter, tonumber(ARGV[4]))))
redis.call('SET', KEYS[1], ARGV[4] .. ':' .. ARGV[3] .. ':' .. ARGV[1], 'PX', ARGV[2])
return 1
