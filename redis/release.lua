
local owner = string.match(expected, '^%d+:(.*)$')
local _, holder = string.match(value or '', '^(%d+):(.*)$')
local removed, first, score = 1
if holder == owner then
  first, score = unpack(call('ZPOPMIN', queue))
  if first and string.sub(first, 1, 1) ~= 's' then
    reserve(channel, first)
    return removed
  end
  call('DEL', lock)
  if not first then return removed end
else
  removed = call('ZREM', queue, string.sub(channel, -32) .. owner)
  if value then return removed end
end
