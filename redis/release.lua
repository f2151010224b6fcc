-- Removes what is kept of an owner, its lease, its reservation or its place in the queue, and hands the key on.
--
-- KEYS: lock, queue. ARGV: owner, inbox, channel prefix, most deputies.
-- Returns 2 if a lease was released, 1 if a reservation or place was given up, 0 if there was nothing of this owner.

local lock, queue = KEYS[1], KEYS[2]
local me, inbox, channel, deputies = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local token, _, owner = parse(redis.call('GET', lock))
if token and owner == me then
  if not hand_over(lock, queue, channel, deputies) then redis.call('DEL', lock) end
  return token == '0' and 1 or 2
end
local removed = redis.call('ZREM', queue, inbox .. me)
if not owner then hand_over(lock, queue, channel, deputies) end -- nobody may be left waiting for a free key
return removed
