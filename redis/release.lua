
local channel = ARGV[2]
local owner = string.match(expected, '^%d+:(.*)$')
local _, holder = string.match(value or '', '^(%d+):(.*)$')
local removed = 1
if holder ~= owner then
  removed = call('ZREM', queue, string.sub(channel, -32) .. owner)
  if value then return removed end
end
-- No waiter may be left behind a free key.
local first = call('ZPOPMIN', queue)[1]
if first then
  reserve(lock, channel, first)
elseif value then
  call('DEL', lock)
end
return removed
