package readers

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// names are the keys of Redis that a key has: its writer, who expires; its readers, by the end of their leases; tokens;
// its queue, by arrival; the last moment by which each waiter polls; a counter.
func names(key string) []string {
	var all []string
	for _, part := range []string{"writer", "readers", "tokens", "queue", "seen", "count"} {
		all = append(all, "specimen:rw:"+part+":"+key)
	}
	return all
}

// steps are what a specimen may do otherwise: functions of the scripts.
type steps struct {
	purge, reading, isReader, enterReader, renewReader, removeReader string
	mayRead, leave, seen                                             string
}

func right() steps {
	return steps{
		purge: purge, reading: reading, isReader: isReader, enterReader: enterReader, renewReader: renewReader,
		removeReader: removeReader, mayRead: mayRead, leave: leave, seen: seen,
	}
}

// script makes a script of the steps and what it does with them.
func (how *steps) script(body string) *redis.Script {
	return redis.NewScript(strings.Join([]string{
		begin, how.purge, how.reading, how.isReader, how.enterReader, how.renewReader, how.removeReader, how.mayRead,
		mayWrite, how.leave, how.seen, holder, body,
	}, "\n"))
}

const begin = `
local WRITER, READERS, TOKENS, QUEUE, SEEN, COUNT = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local owner, mode, ttl, wait = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local call, time = redis.call, redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local me = owner and mode .. owner`

// purge ends the leases of readers whose own TTL has run out, and the places of waiters that have stopped polling.
const purge = `
local function purge()
  call('ZREMRANGEBYSCORE', READERS, '-inf', now)
  for _, w in ipairs(call('ZRANGEBYSCORE', SEEN, '-inf', now)) do
    call('ZREM', QUEUE, w)
    call('ZREM', SEEN, w)
  end
end`

// reading counts the readers.
const reading = `
local function reading() return call('ZCARD', READERS) end`

// isReader reports whether the owner has a shared lease.
const isReader = `
local function isReader() return call('ZSCORE', READERS, owner) end`

// enterReader adds a reader with an end of its own.
const enterReader = `
local function enterReader() call('ZADD', READERS, now + ttl, owner) end`

// renewReader moves the end of one reader, if it has not ended.
const renewReader = `
local function renewReader()
  if not call('ZSCORE', READERS, owner) then return 0 end
  call('ZADD', READERS, now + ttl, owner)
  return 1
end`

// removeReader removes one reader.
const removeReader = `
local function removeReader() return call('ZREM', READERS, owner) end`

// mayRead: no writer holds the key, and none waits ahead.
const mayRead = `
local function mayRead()
  if call('EXISTS', WRITER) == 1 then return false end
  for _, w in ipairs(call('ZRANGE', QUEUE, 0, -1)) do
    if w == me then return true end
    if string.sub(w, 1, 1) == 'w' then return false end
  end
  return true
end`

// mayWrite: nobody holds the key or waits ahead.
const mayWrite = `
local function mayWrite()
  local first = call('ZRANGE', QUEUE, 0, 0)[1]
  return call('EXISTS', WRITER) == 0 and reading() == 0 and (not first or first == me)
end`

// leave removes a waiter's place.
const leave = `
local function leave()
  call('ZREM', SEEN, me)
  return call('ZREM', QUEUE, me)
end`

// seen keeps the place of a waiter that polls.
const seen = `
local function seen()
  if not call('ZSCORE', QUEUE, me) then call('ZADD', QUEUE, call('INCR', COUNT), me) end
  call('ZADD', SEEN, now + wait, me)
end`

// holder is who holds the key: owner, token, milliseconds left, readers, waiters.
const holder = `
local function token(of) return tonumber(call('HGET', TOKENS, of) or 0) end
local function holder(granted)
  local writer, waiters = call('GET', WRITER), call('ZCARD', QUEUE)
  if writer then return {granted, writer, token(writer), call('PTTL', WRITER), 0, waiters} end
  if reading() == 0 then return {granted, '', 0, 0, 0, waiters} end
  local last = call('ZREVRANGE', READERS, 0, 0, 'WITHSCORES')
  return {granted, last[1], token(last[1]), last[2] - now, reading(), waiters}
end
purge()`

// acquire grants the key, or puts a waiter into the queue. A repeated request by the same owner gets the same token.
const acquire = `
local mine = mode == 'w' and call('GET', WRITER) == owner or mode == 'r' and isReader()
if not mine and (mode == 'r' and mayRead() or mode == 'w' and mayWrite()) then
  if call('EXISTS', WRITER) == 0 and reading() == 0 then call('DEL', TOKENS) end
  call('HSET', TOKENS, owner, call('INCR', COUNT))
  mine = true
end
if not mine then
  if wait > 0 then seen() end
  return holder(0)
end
leave()
if mode == 'w' then call('SET', WRITER, owner, 'PX', ttl) else enterReader() end
return {1, owner, token(owner), ttl, 0, 0}`

const renew = `
if mode == 'r' then return {renewReader()} end
if call('GET', WRITER) ~= owner then return {0} end
return {call('PEXPIRE', WRITER, ttl)}`

// release removes the lease of an owner, or its place in the queue.
const release = `
local had = leave()
if mode == 'r' then return {math.max(had, removeReader())} end
if call('GET', WRITER) ~= owner then return {had} end
return {call('DEL', WRITER)}`

const inspect = `return holder(0)`
