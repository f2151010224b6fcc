
local value = call('MGET', lock)[1] -- none if readers hold the key
if value == expected and call('EXISTS', queue) == 0 then
  call('DEL', lock)
  return 1
end
