-- Raises a node's counter to the token that was chosen, if the owner still holds the key there.
--
-- KEYS: lock, fence. ARGV: owner, token, number of the request.
-- Returns 1 if done, 0 if the owner does not hold the key.

local token, number, owner = parse(redis.call('GET', KEYS[1]))
local left = redis.call('PTTL', KEYS[1])
if owner ~= ARGV[1] or number > tonumber(ARGV[3]) or left <= 0 then return 0 end
local counter = tonumber(redis.call('GET', KEYS[2]) or 0) or 0
redis.call('SET', KEYS[2], whole(math.max(counter, tonumber(ARGV[2]))))
redis.call('SET', KEYS[1], ARGV[2] .. ':' .. ARGV[3] .. ':' .. ARGV[1], 'PX', left)
return 1
