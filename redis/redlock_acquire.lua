-- Grants a key to an owner at this node with a number for the fencing token, in one request; or refuses.
--
-- KEYS: lock, fence, birth. ARGV: owner, time to keep it in ms, number of the request, proposed token, longest TTL in ms.
-- Returns {what, incarnation, time in µs, …}:
--   granted, token, ms until the node has a vote (0: this is one)
--   held, token, owner, ms left
--   late                  overtaken by a later request of the same owner, which has the key
--   stranger              the node must be met first: see redlock_meet.lua
--   differs, longest TTL  the fleet's longest TTL is another one

local lock, fence, birth = KEYS[1], KEYS[2], KEYS[3]
local me, number, max = ARGV[1], tonumber(ARGV[3]), ARGV[5]
local SLACK = 200000 -- µs by which a client's clock may differ from the node's before its proposal is corrected

local now = clock()
local born, longest, _, run = parse_birth(redis.call('GET', birth))
local function answer(what, ...) return {what, run or '', now, ...} end

local token, last, owner = parse(redis.call('GET', lock))
if owner and owner ~= me then return answer('held', token, owner, redis.call('PTTL', lock)) end
local age = math.floor(now / 1000) - (born or 0)
if not run or age < 0 or not runs_as(run) then return answer('stranger') end
if longest ~= max then return answer('differs', longest) end
if owner and last > number then return answer('late') end
local left = math.max(minority(tonumber(max)) - age, 0)
if owner and last == number then return answer('granted', token, left) end -- a client has repeated it by itself

local proposal, counter = tonumber(ARGV[4]), tonumber(redis.call('GET', fence) or 0) or 0
local minted = math.max(counter + 1, math.min(math.max(proposal, now - SLACK), now + SLACK))
token = minted == proposal and ARGV[4] or whole(minted)
redis.call('SET', fence, token)
redis.call('SET', lock, token .. ':' .. ARGV[3] .. ':' .. me, 'PX', ARGV[2])
return answer('granted', token, left)
