
-- Renews a lease for another client of its owner.
--
-- KEYS: lock. ARGV: the lock's value or the reader's member; the TTL in ms; the ms that the lease had left when the
-- client read it. Returns {1} renewed; {0} lost; {2} not renewed, because a client has extended the lease since, and
-- this request, which may arrive after its caller has given up, would shorten it.

local lock, mine, ttl, seen = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local value, now, left = call('MGET', lock)[1], clock(), nil
local ends = not value and redis.pcall('ZSCORE', lock, mine) -- fails for a foreign type
if value == mine then
  left = call('PTTL', lock)
elseif type(ends) == 'string' and tonumber(ends) > now then
  left = ends - now
else
  return {0}
end
if left > math.max(ttl, seen) then return {2} end
if value then
  call('PEXPIRE', lock, ttl)
else
  call('ZREMRANGEBYSCORE', lock, '-inf', now) -- a full server refuses ZADD unless another write precedes it
  call('ZADD', lock, now + ttl, mine)
  follow(lock, now)
end
return {1}
