
local now, time = clock()

local function grant()
  local token = nextToken(time)
  call('ZADD', lock, now + ttl, token .. ':' .. owner)
  follow(lock, now)
  return token
end

-- reserved removes the owner's reservation, and reports whether there was one.
local function reserved() return call('ZREM', lock, '0:' .. owner) == 1 end

if value then return refuse(value) end
call('ZREMRANGEBYSCORE', lock, '-inf', now)
if reserved() then return grant() end
-- A waiter that has no place any more may be a reader by now: this request may arrive later than its repetition.
local reader = (ARGV[5] == '2' or ARGV[5] == '1' and not call('ZSCORE', queue, member)) and find(lock, owner)
if reader then
  -- The reply to an earlier request was lost. This one must not shorten what a renewal has granted since.
  if call('ZSCORE', lock, reader) - now < tonumber(ttl) then
    call('ZADD', lock, now + ttl, reader)
    follow(lock, now)
  end
  return string.match(reader, '^%d+')
end
if advance(channel) then return grant() end
value = call('MGET', lock)[1] -- advance may have reserved the key for an exclusive waiter
if value then return refuse(value) end
if reserved() or call('EXISTS', queue) == 0 then return grant() end
return describe(lock, nil, enqueue(true))
