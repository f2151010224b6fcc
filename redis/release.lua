-- Removes what is kept of an owner, its lease, its reservation or its place in the queue, and hands the key on.
--
-- A client that repeats requests by itself asks again when an answer was lost, and must not take its own release for a loss:
-- for it a note of the release is kept for a while.
--
-- KEYS: lock, queue, note. ARGV: owner, inbox, channel prefix, most deputies, ms to keep the note; 0, and no key, for none.
-- Returns 2 if a lease was released, 1 if a reservation or place was given up, 0 if there was nothing of this owner.

local lock, queue, note = KEYS[1], KEYS[2], KEYS[3]
local me, inbox, channel, deputies, keep = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

local token, _, owner = parse(redis.call('GET', lock))
if token and owner == me then
  if not hand_over(lock, queue, channel, deputies) then redis.call('DEL', lock) end
  if token == '0' then return 1 end
  if keep > 0 then redis.call('SET', note, '', 'PX', keep) end
  return 2
end
local removed = redis.call('ZREM', queue, inbox .. me)
if not owner then hand_over(lock, queue, channel, deputies) end -- nobody may be left waiting for a free key
if removed == 0 and keep > 0 and redis.call('EXISTS', note) == 1 then return 2 end
return removed
