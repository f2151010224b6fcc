-- Extends leases that have not ended; never revives one.
--
-- KEYS: locks. ARGV: each lock's value or the reader's member; then the TTL of all in ms. For one lease of another
-- client, also the ms that the lease had left when this client read it.
--
-- Returns {1} if all are renewed; {2} if the lease of another client is not renewed, because that client has extended it
-- since it was read, and this request, which may arrive after its caller has given up, would shorten it; otherwise for
-- each lease 1 renewed, 0 lost.

local ttl, seen, all = ARGV[#KEYS + 1], ARGV[#KEYS + 2], true
local values, replies = redis.call('MGET', unpack(KEYS)), {}
for i, lock in ipairs(KEYS) do
  if values[i] == ARGV[i] then
    if seen and redis.call('PTTL', lock) > math.max(ttl, seen) then return {2} end
    redis.call('PEXPIRE', lock, ttl)
    replies[i] = 1
  else
    replies[i], all = 0, false
  end
end
if all then return {1} end
