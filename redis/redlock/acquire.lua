-- Grants a key to an owner at this node with a number for the fencing token, in one request; or refuses.
--
-- KEYS: lock, fence, birth. ARGV: owner, time to keep it in ms, number of the request, proposed token, 1 if the owner
-- has chosen that token; then from handshake.lua: the birth record, born, when the node votes from in ms by its clock,
-- the server's run_id.
--
-- The owner chooses a token after its election. A node that still has the owner's key then stores the token, and raises
-- its counter to the token.
--
-- Returns {what, time in µs, …}:
--   granted, token, ms until the node has a vote (0: this is one)
--   held, token, owner, ms left
--   late      a later request of the same owner has the key, or the key has expired since the election
--   stranger  a handshake must come first

local lock, fence, me, number = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[3])
local SLACK = 200000 -- µs by which a client's clock may differ from the node's before its proposal is corrected

local now = clock()
local token, last, owner = parse(redis.call('GET', lock))
if owner and owner ~= me then return {'held', now, token, owner, redis.call('PTTL', lock)} end
local ms = math.floor(now / 1000)
if redis.call('GET', KEYS[3]) ~= ARGV[6] or ms < tonumber(ARGV[7]) or not runs_as(ARGV[9]) then
  return {'stranger', now}
end
local chosen = ARGV[5] == '1'
if owner and last > number or not owner and chosen then return {'late', now} end
local left = math.max(tonumber(ARGV[8]) - ms, 0)
if owner and last == number then return {'granted', now, token, left} end -- a client has repeated it by itself

local proposal, counter = tonumber(ARGV[4]), tonumber(redis.call('GET', fence) or 0) or 0
local minted = chosen and proposal or math.max(counter + 1, math.min(math.max(proposal, now - SLACK), now + SLACK))
token = minted == proposal and ARGV[4] or whole(minted)
if minted > counter then redis.call('SET', fence, token) end
redis.call('SET', lock, token .. ':' .. ARGV[3] .. ':' .. me, 'PX', ARGV[2])
return {'granted', now, token, left}
