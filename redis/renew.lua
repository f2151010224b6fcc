-- Extends leases that their owners still hold; never revives a lease.
--
-- KEYS: locks. ARGV: the value of each lock; then the TTL of all in ms.
-- Returns {1} if all are renewed; otherwise for each lock 1 renewed, 0 lost.

local ttl, all = ARGV[#KEYS + 1], true
local values, replies = redis.call('MGET', unpack(KEYS)), {}
for i, lock in ipairs(KEYS) do
  if values[i] == ARGV[i] then
    redis.call('PEXPIRE', lock, ttl)
    replies[i] = 1
  else
    replies[i], all = 0, false
  end
end
return all and {1} or replies
