
local function grant()
  local token = nextToken()
  call('SET', lock, token .. ':' .. owner, 'PX', ttl)
  return token
end

if value and value ~= '0:' .. owner then
  local token, holder = string.match(value, '^(%d+):(.*)$')
  if holder == owner then
    -- The reply to the first request was lost. This one must not shorten what a renewal has granted since.
    if call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
    return token
  end
  return refuse(value)
end
if value or used == 0 then return grant() end
local first, score
if used == 1 then -- either the queue before a free key, or readers without a queue
  first, score = unpack(call('ZPOPMIN', queue))
  if first == member then return grant() end
end
local added = enqueue(not first)
if first and string.sub(first, 1, 1) ~= 's' then
  reserve(channel, first)
  return {'0', string.sub(first, 33), tonumber(RESERVATION), added, 0}
end
