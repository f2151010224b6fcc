-- Runs commands, to find out which of them the server lacks or forbids. It leaves no keys behind.
--
-- KEYS: lock, queue. ARGV: a channel, then commands with their arguments. The words lock, queue and channel in the
-- arguments stand for these names. Returns the name and the error of each command that failed.

local names, failed = {lock = KEYS[1], queue = KEYS[2], channel = ARGV[1]}, {}
for i = 2, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do words[#words + 1] = names[word] or word end
  local reply = redis.pcall(unpack(words))
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = words[1]
    failed[#failed + 1] = reply.err
  end
end
return failed
