
-- Extends shared leases that have not ended; never revives one. KEYS, ARGV and the reply are those of renew.lua.

local ttl, all, replies = ARGV[#KEYS + 1], true, {}
local values, now = call('MGET', unpack(KEYS)), clock()
for i, lock in ipairs(KEYS) do
  local member = ARGV[i]
  local ends = not values[i] and redis.pcall('ZSCORE', lock, member) -- fails for a foreign type
  if type(ends) == 'string' and tonumber(ends) > now then
    call('ZREMRANGEBYSCORE', lock, '-inf', now) -- a full server refuses ZADD unless another write precedes it
    call('ZADD', lock, now + ttl, member)
    follow(lock, now)
    replies[i] = 1
  else
    replies[i], all = 0, false
  end
end
return all and {1} or replies
