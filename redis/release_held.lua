-- Removes what is kept of an owner, its lease, its reservation or its place in the queue, and hands the key on.
-- This part comes before all that the release of a lease does not need that nobody waits for.
--
-- A client that repeats requests by itself asks again when an answer was lost, and must not take its own release for a loss:
-- for it a note of the release is kept for a while.
--
-- KEYS: lock, queue, note. ARGV: what the lock's value was before the first renewal, with token 0 if there may be no lease;
-- how to tell waiters; ms to keep the note; 0, and no key, for none.
-- Returns 1 if there was anything of this owner, 0 if not.

local call = redis.call
local lock, queue, keep = KEYS[1], KEYS[2], ARGV[3]

local value = call('GET', lock)
local first
if value == ARGV[1] and keep == '0' then
  first = call('ZPOPMIN', queue)[1]
  if not first then
    call('DEL', lock)
    return 1
  end
end
