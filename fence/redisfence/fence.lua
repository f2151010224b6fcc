-- KEYS[1]  the highest token seen, in decimal digits
-- ARGV[1]  the offered token
-- The others are those of the script behind the check. Tokens are compared as digits: Lua's numbers are exact up to 2^53 only.
do
	local seen = redis.call("GET", KEYS[1])
	if seen and not string.find(seen, "^[1-9]%d*$") then
		return redis.error_reply("NOFENCE the key " .. KEYS[1] .. " holds no token")
	end
	if not seen or #seen < #ARGV[1] or (#seen == #ARGV[1] and seen < ARGV[1]) then
		redis.call("SET", KEYS[1], ARGV[1])
	elseif seen ~= ARGV[1] then
		return redis.error_reply("FENCESTALE " .. seen)
	end
end
table.remove(KEYS, 1)
table.remove(ARGV, 1)
