
local function grant(now, time)
  local token = nextToken(time)
  call('ZADD', lock, now + ttl, token .. ':' .. owner)
  follow(lock, now)
  return token
end

-- reserved removes the owner's reservation, and reports whether there was one.
local function reserved() return call('ZREM', lock, '0:' .. owner) == 1 end

local value = call('MGET', lock)[1]
if value then return refuse(value) end
local now, time = clock()
call('ZREMRANGEBYSCORE', lock, '-inf', now)
local reader = ARGV[5] == '1' and find(lock, owner)
local token = reader and string.match(reader, '^%d+')
if token and token ~= '0' then
  -- The reply to the first request was lost. This one must not shorten what a renewal has granted since.
  if call('ZSCORE', lock, reader) - now < tonumber(ttl) then
    call('ZADD', lock, now + ttl, reader)
    follow(lock, now)
  end
  return token
end
if reserved() or advance(channel) then return grant(now, time) end
value = call('MGET', lock)[1] -- advance may have reserved the key for an exclusive waiter
if value then return refuse(value) end
if reserved() or call('EXISTS', queue) == 0 then return grant(now, time) end
return describe(lock, nil, enqueue(true))
