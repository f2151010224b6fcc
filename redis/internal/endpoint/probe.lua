-- Tries commands on keys that are gone when it ends, to find out at opening what the server lacks or forbids.
--
-- KEYS: lock, queue. ARGV: a channel, then commands with what follows them; the words lock, queue and channel stand for the names.
-- Returns for each command that failed its name and the error.

local names, failed, worked = {lock = KEYS[1], queue = KEYS[2], channel = ARGV[1]}, {}, {}
for i = 2, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do words[#words + 1] = names[word] or word end
  local command = words[1]
  if command ~= 'INCR' or worked.SET then -- which gives what INCR makes an end
    local reply = redis.pcall(unpack(words))
    if type(reply) == 'table' and reply.err then
      failed[#failed + 1] = command
      failed[#failed + 1] = reply.err
    else
      worked[command] = true
    end
  end
end
return failed
