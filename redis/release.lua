-- What release_held.lua leaves over.

local told = ARGV[2]
local token, _, owner = parse(value)
local _, _, me = parse(ARGV[1])
local removed = 1
if not token or owner ~= me then
  removed = call('ZREM', queue, string.sub(told, 1, 32) .. me)
  if owner then return removed end
end
-- Nobody may be left waiting for a free key.
first = first or call('ZPOPMIN', queue)[1]
if first then
  reserve(lock, queue, told, first)
  return removed + 2
elseif owner then
  call('DEL', lock)
end
return removed
