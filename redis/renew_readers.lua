
local now = clock()
all = true
for i, lock in ipairs(KEYS) do
  local ends = not values[i] and redis.pcall('ZSCORE', lock, ARGV[i]) -- fails for a foreign type
  if type(ends) == 'string' and tonumber(ends) > now then
    if seen and ends - now > math.max(ttl, seen) then return {2} end
    call('ZREMRANGEBYSCORE', lock, '-inf', now) -- a full server refuses ZADD unless another write precedes it
    call('ZADD', lock, now + ttl, ARGV[i])
    follow(lock, now)
    replies[i] = 1
  end
  all = all and replies[i] == 1
end
return all and {1} or replies
