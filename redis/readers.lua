
local call = redis.call

-- The readers of a key, the owners of its shared leases, are a sorted set in place of the lock's value. A member is
-- "token:owner", with token 0 if the waiter was just notified; the score is the end in ms by the server's clock. The
-- key expires with the last reader.

-- clock returns the server's time in ms, and as TIME returns it.
local function clock()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000), time
end

-- follow makes the key expire with the reader that ends last.
local function follow(lock, now)
  local last = call('ZRANGE', lock, -1, -1, 'WITHSCORES')[2]
  if last then call('PEXPIRE', lock, last - now) end
end

-- find returns the member of an owner. It reads all readers.
local function find(lock, owner)
  for _, member in ipairs(call('ZRANGE', lock, 0, -1)) do
    if string.match(member, '^%d+:(.*)$') == owner then return member end
  end
end

-- describe returns {token, owner, ms left, n, number of readers} for a member, by default the one that ends last; {} if
-- there is none.
local function describe(lock, member, n)
  member = member or call('ZRANGE', lock, -1, -1)[1]
  if not member then return {} end
  local ends = call('ZSCORE', lock, member)
  local now = math.min(clock(), ends - 1) -- the last one may just have ended
  local token, owner = string.match(member, '^(%d+):(.*)$')
  return {token or '0', owner or member, ends - now, n, call('ZCOUNT', lock, '(' .. now, '+inf')}
end
