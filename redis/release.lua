-- What release_held.lua leaves over.

local told, note = ARGV[2], KEYS[3]
local token, _, owner = parse(value)
local _, _, me = parse(ARGV[1])
local removed = 1
if token and owner == me then
  if token ~= '0' and keep ~= '0' then call('SET', note, '', 'PX', keep) end
else
  removed = call('ZREM', queue, string.sub(told, 1, 32) .. me)
  if removed == 0 and keep ~= '0' then removed = call('EXISTS', note) end
  if owner then return removed end
end
-- Nobody may be left waiting for a free key.
first = first or call('ZPOPMIN', queue)[1]
if first then
  reserve(lock, queue, told, first)
elseif owner then
  call('DEL', lock)
end
return removed
