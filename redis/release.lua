-- Removes what is kept of an owner, its lease, its reservation or its place in the queue, and hands the key on.
--
-- KEYS: lock, queue. ARGV: what the lock's value was before the first renewal, with token 0 if there may be no lease; how to tell
-- waiters.
-- Returns 1 if there was anything of this owner, 0 if not; 2 more if the key is now kept for a waiter.

local lock, queue, told = KEYS[1], KEYS[2], ARGV[2]
local value = call('GET', lock)
local token, _, owner = parse(value)
local _, _, me = parse(ARGV[1])
local removed = 1
if not token or owner ~= me then
  removed = call('ZREM', queue, string.sub(told, 1, 32) .. me)
  if owner then return removed end
end
-- Nobody may be left waiting for a free key.
local first = call('ZPOPMIN', queue)[1]
if first then
  reserve(lock, queue, told, first)
  return removed + 2
elseif owner then
  call('DEL', lock)
end
return removed
