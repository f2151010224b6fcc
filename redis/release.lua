-- Removes what is kept of an owner, its lease, its reservation or its place in the queue, and hands the key on.
--
-- A client that repeats requests by itself asks again when an answer was lost, and must not take its own release for a loss:
-- for it a note of the release is kept for a while.
--
-- KEYS: lock, queue, note. ARGV: owner, inbox, channel prefix, most deputies, ms to keep the note; 0, and no key, for none.
-- Returns 2 if a lease was released, 1 if a reservation or place was given up, 0 if there was nothing of this owner.

local lock, queue, note = KEYS[1], KEYS[2], KEYS[3]
local me, keep = ARGV[1], ARGV[5]

local token, _, owner = parse(call('GET', lock))
local removed = 0
if token and owner == me then
  removed = token == '0' and 1 or 2
  if removed == 2 and keep ~= '0' then call('SET', note, '', 'PX', keep) end
else
  removed = call('ZREM', queue, ARGV[2] .. me)
  if removed == 0 and keep ~= '0' and call('EXISTS', note) == 1 then removed = 2 end
  if owner then return removed end
end
-- Nobody may be left waiting for a free key.
local first = call('ZPOPMIN', queue)[1]
if first then
  reserve(lock, queue, ARGV[3], ARGV[4], first)
elseif owner then
  call('DEL', lock)
end
return removed
