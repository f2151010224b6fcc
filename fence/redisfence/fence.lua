-- KEYS[1]  the highest exclusive token seen, in decimal digits; ":" and the highest shared token follow if that was seen later
-- ARGV[1]  the offered token; "s" precedes a shared one
-- All others belong to the script after the check. Tokens are compared as digits: Lua's numbers are exact up to 2^53 only.
do
	local function above(a, b) return #a > #b or #a == #b and a > b end

	local shared, token = string.match(ARGV[1], "^(s?)(%d+)$")
	local seen = redis.call("GET", KEYS[1])
	local writer, colon, reader = string.match(seen or "", "^(%d*)(:?)(%d*)$")
	if seen and (not writer or string.find(":" .. seen, ":0") or (colon == "" and writer or reader) == "") then
		return redis.error_reply("NOFENCE the key " .. KEYS[1] .. " holds no token")
	end
	local highest = writer
	if shared == "" and above(reader, writer) then
		highest = reader
	end
	if above(highest, token) then
		return redis.error_reply("FENCESTALE " .. highest)
	end
	if shared == "" and seen ~= token then
		redis.call("SET", KEYS[1], token)
	elseif shared == "s" and above(token, reader) then
		redis.call("SET", KEYS[1], writer .. ":" .. token)
	end
end
table.remove(KEYS, 1)
table.remove(ARGV, 1)
