package readers

// The Lua functions below run in the server, in one script for each request. Each request begins with arguments,
// dropReaders and dropWaiters.

// arguments names the keys and arguments of a request, and reads the server's clock.
const arguments = `
local call = redis.call
local writer, readers, queue, places, tokens = unpack(KEYS)
local owner, shared, ttl, waits = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4] == '1'
local member = (shared and 's:' or 'x:') .. owner
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

// dropReaders removes the readers whose own TTL has run out. The readers are a sorted set of owners. The score is the
// end of the owner's lease, in milliseconds by the server's clock.
const dropReaders = `
call('ZREMRANGEBYSCORE', readers, '-inf', now)
`

// dropWaiters removes the waiters that have not polled for as long as a place lasts: they are dead, or disconnected.
const dropWaiters = `
for _, dead in ipairs(call('ZRANGEBYSCORE', places, '-inf', now)) do
  call('ZREM', places, dead)
  call('ZREM', queue, dead)
end
`

// keepReaders lets the set expire with the reader that ends last.
const keepReaders = `
local function keepReaders()
  call('PEXPIRE', readers, call('ZRANGE', readers, -1, -1, 'WITHSCORES')[2] - now)
end
`

// addReader adds the owner to the readers. A repeated request does not shorten what a renewal has granted since.
const addReader = `
local function addReader()
  call('ZADD', readers, 'GT', now + ttl, owner)
  keepReaders()
end
`

// reads reports whether the owner is among the readers.
const reads = `
local function reads() return call('ZSCORE', readers, owner) ~= false end
`

// renewReader moves the end of the owner's lease, and no other. It never adds a reader.
const renewReader = `
local function renewReader()
  if not reads() then return 0 end
  call('ZADD', readers, now + ttl, owner)
  keepReaders()
  return 1
end
`

// removeReader removes the owner, and no other reader.
const removeReader = `
local function removeReader() return call('ZREM', readers, owner) end
`

// countReaders returns the number of readers.
const countReaders = `
local function countReaders() return call('ZCARD', readers) end
`

// lastReader returns the reader that ends last, and the milliseconds that it has left.
const lastReader = `
local function lastReader()
  local last = call('ZRANGE', readers, -1, -1, 'WITHSCORES')
  return last[1], last[2] - now
end
`

// mustWait reports whether the request conflicts with a holder, or with a waiter ahead of it. A request without a place
// in the queue is behind all waiters.
const mustWait = `
local function mustWait()
  if call('EXISTS', writer) == 1 or not shared and countReaders() > 0 then return true end
  local place = call('ZSCORE', queue, member) or '+inf'
  for _, waiter in ipairs(call('ZRANGEBYSCORE', queue, '-inf', '(' .. place)) do
    if not shared or string.sub(waiter, 1, 1) == 'x' then return true end
  end
  return false
end
`

// enqueue adds the request to the queue, in the order of arrival. Its place lasts for two seconds from its latest poll.
const enqueue = `
local function enqueue()
  local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or 0
  call('ZADD', queue, 'NX', last + 1, member)
  call('ZADD', places, now + 2000, member)
  call('PEXPIRE', queue, 2000)
  call('PEXPIRE', places, 2000)
end
`

// dequeue removes the request from the queue.
const dequeue = `
local function dequeue()
  call('ZREM', places, member)
  return call('ZREM', queue, member)
end
`

// describe returns token, owner, milliseconds left, number of readers and number of waiters. A free key that somebody
// waits for is reserved for the first in the queue. The token is 0 for readers, which have none of their own in the
// server, and for a reservation.
const describe = `
local function describe()
  local waiters, count = call('ZCARD', queue), countReaders()
  local holder = call('GET', writer)
  if holder then return {tonumber(call('GET', tokens)), holder, call('PTTL', writer), 0, waiters} end
  if count > 0 then
    local last, left = lastReader()
    return {0, last, left, count, waiters}
  end
  local first = call('ZRANGE', queue, 0, 0)[1]
  if not first then return {0, '', 0, 0, 0} end
  local left = (call('ZSCORE', places, first) or now) - now
  return {0, string.sub(first, 3), left, string.sub(first, 1, 1) == 's' and 1 or 0, waiters}
end
`

// acquire grants the key to the owner, or describes the holder. A request that finds its own owner has succeeded: the
// reply to an earlier one was lost.
const acquire = `
if not shared and call('GET', writer) == owner then
  if call('PTTL', writer) < ttl then call('PEXPIRE', writer, ttl) end
  return describe()
end
if shared and reads() or not mustWait() then
  dequeue()
  if shared then addReader() else call('SET', writer, owner, 'PX', ttl) end
  return {call('INCR', tokens), owner, ttl, 0, 0}
end
if waits then enqueue() end
return describe()
`

// renew extends the lease of its owner only, and returns 0 if there is none.
const renew = `
if shared then return renewReader() end
if call('GET', writer) ~= owner then return 0 end
return call('PEXPIRE', writer, ttl)
`

// release removes the lease of its owner only, or its place in the queue, and returns 0 if there is neither.
const release = `
local removed = dequeue()
if shared then return removed + removeReader() end
if call('GET', writer) ~= owner then return removed end
return call('DEL', writer)
`

const inspect = `
return describe()
`
