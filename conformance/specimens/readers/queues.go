package readers

import "github.com/anylock/lock/conformance/specimens"

// Who waits for whom.
var queues = []specimens.Specimen{
	{
		Name:  "writer-starves",
		Title: "A stream of readers that starves the writer",
		Story: "A reader may enter while other readers hold the key: this is what a read lock is for. The lock checks " +
			"nothing else, so it does not know whether a writer waits. If the reads overlap, there is never a moment " +
			"without a reader, and a writer waits for ever. Redisson's read-write lock has no fairness, and writers starved " +
			"in minio.",
		See:    "Redisson issue 5379; minio issue 2629",
		Right:  "A writer that waits has a place in a queue, and no reader passes it.",
		Sin:    []string{"waitForHolders"},
		Virtue: []string{"mustWait"},
		Open:   open(func(s *steps) { s.mustWait = waitForHolders }),
		Kills: []specimens.Kill{
			{
				Check: "WriterOutwaitsStream", Says: "with a stream of readers",
				OrSays: "after an exclusive one was in the queue was granted before it",
			},
			{Check: "NoReaderPassesWaitingWriter", Says: "a shared request passed an exclusive one that waited before it"},
			{Check: "ReadersIgnoreLaterWriter", Says: "which an exclusive request waits for"},
		},
	},
	{
		Name:  "try-ignores-the-queue",
		Title: "An attempt of a reader that ignores the queue",
		Story: "Readers that wait queue up behind a waiting writer. The method that makes one attempt does not wait, and " +
			"so it ignores the queue too: it enters if readers hold the key at that moment. Callers that try in a loop, " +
			"with a sleep between attempts, pass every waiting writer. If there are enough of them, the writer never gets " +
			"in, although the lock is called fair.",
		See:    "Java API, ReentrantReadWriteLock: tryLock passes waiting threads, in fair mode too",
		Right:  "An attempt is refused while an exclusive request waits.",
		Sin:    []string{"waitInQueueOnly"},
		Virtue: []string{"mustWait"},
		Open:   open(func(s *steps) { s.mustWait = waitInQueueOnly }),
		Kills: []specimens.Kill{
			{Check: "TrySharedBehindWaitingWriter", Says: "which an exclusive request waits for"},
			{Check: "ManyReaders", Says: "which an exclusive request waits for"},
		},
	},
	{
		Name:  "readers-one-by-one",
		Title: "Readers that enter one by one after a writer",
		Story: "One loop waits for both modes, and tries again when the key is free. A reader that has waited for a writer " +
			"then waits for the other readers too, one after the other, although they could share the key. Nothing fails, " +
			"but a hundred readers of one second take a hundred seconds after each write. In Redisson readers entered one " +
			"by one after a writer.",
		See:    "Redisson issue 1542",
		Right:  "A waiting reader waits only for what conflicts with it: readers that follow each other enter together.",
		Sin:    []string{"waitUntilFree"},
		Virtue: []string{"mustWait"},
		Open:   open(func(s *steps) { s.mustWait = waitUntilFree }),
		Kills: []specimens.Kill{
			{Check: "ReadersEnterTogether", Says: "readers that wait one after the other have entered"},
			{Check: "ReadersIgnoreLaterWriter", Says: "of 3 readers that wait one after the other have entered"},
		},
	},
	{
		Name:  "waits-for-later-writers",
		Title: "Readers that wait for later writers",
		Story: "A reader must not pass a waiting writer, so it waits as long as any writer is in the queue. But a writer " +
			"that came later waits for the reader before it. Neither ever enters, although nobody holds the key. This was " +
			"a deadlock in kazoo, whose readers waited for later writers.",
		See:    "kazoo issue 649",
		Right:  "Wait for those ahead in the queue, and for nobody behind.",
		Sin:    []string{"waitForAnyWriter"},
		Virtue: []string{"mustWait"},
		Open:   open(func(s *steps) { s.mustWait = waitForAnyWriter }),
		Kills: []specimens.Kill{
			{Check: "ReadersIgnoreLaterWriter", Says: "0 of 3 readers that wait one after the other have entered"},
		},
	},
	{
		Name:  "first-waiter-only",
		Title: "Only the first waiter is considered",
		Story: "A reader that polls checks the head of the queue. If a writer is there, the reader waits; if a reader is " +
			"there, readers may enter. But the second in the queue may be a writer, ahead of the reader that polls. That " +
			"reader passes the writer if it polls before the first one does.",
		See:    "read-write locks that check only the head of their queue",
		Right:  "Check all waiters ahead in the queue.",
		Sin:    []string{"waitForFirst"},
		Virtue: []string{"mustWait"},
		Open:   open(func(s *steps) { s.mustWait = waitForFirst }),
		Kills: []specimens.Kill{
			{
				Check: "MixedQueueFollowsModel", Says: "was granted the key before one that waits ahead of it",
				OrSays: "a shared request passed an exclusive one",
			},
		},
	},
	{
		Name:  "killed-writer-parks-readers",
		Title: "A place in the queue without an expiry",
		Story: "A waiting writer is in a queue, and no reader passes it. It leaves the queue when it gets the key or gives " +
			"up. A process that is killed while it waits does neither. Its place stays at the head of the queue, and " +
			"nobody behind it ever gets the key, although nobody holds it. The lease had an expiry; the wait had none.",
		See:    "read-write locks that count waiting writers in a key without a TTL",
		Right:  "A place lasts only as long as its owner polls.",
		Sin:    []string{"enqueueForEver"},
		Virtue: []string{"enqueue", "dropWaiters"},
		Open:   open(func(s *steps) { s.enqueue = enqueueForEver }),
		Kills: []specimens.Kill{
			{
				Check: "KilledWriterFreesReaders",
				Says:  "behind a writer that was killed: 0 of 2 readers that wait one after the other have entered",
			},
		},
	},
	{
		Name:  "cancelled-writer-parks-readers",
		Title: "A cancelled writer that keeps readers parked",
		Story: "A waiting writer leaves a mark, so that no new reader passes it. The mark has the TTL that the writer " +
			"requested, and the writer removes it when it gets the key. If the writer gives up, because its time is over " +
			"or its caller cancels, nothing removes the mark. Readers then wait behind a writer that no longer exists, " +
			"while others read. In vs-threading, readers behind a writer that had timed out were never woken.",
		See: "vs-threading issue 252",
		Right: "A waiter that gives up removes its place, and a place that nobody polls for expires soon: a killed waiter " +
			"removes nothing.",
		Sin:    []string{"enqueueForTTL", "releaseLeaseOnly"},
		Virtue: []string{"enqueue", "release"},
		Open:   open(func(s *steps) { s.enqueue, s.release = enqueueForTTL, releaseLeaseOnly }),
		Kills: []specimens.Kill{
			{
				Check: "LeavingWriterFreesReaders", Says: "readers that wait one after the other have entered",
				OrSays: "waiters long after one was cancelled",
			},
		},
	},
}

// waitForHolders considers nobody who waits, for a reader.
const waitForHolders = `
local function mustWait()
  if call('EXISTS', writer) == 1 then return true end
  if shared then return false end
  local place = call('ZSCORE', queue, member) or '+inf'
  return countReaders() > 0 or call('ZCOUNT', queue, '-inf', '(' .. place) > 0
end
`

// waitInQueueOnly considers those ahead in the queue if the request waits itself.
const waitInQueueOnly = `
local function mustWait()
  if call('EXISTS', writer) == 1 or not shared and countReaders() > 0 then return true end
  if shared and not waits then return false end
  local place = call('ZSCORE', queue, member) or '+inf'
  for _, waiter in ipairs(call('ZRANGEBYSCORE', queue, '-inf', '(' .. place)) do
    if not shared or string.sub(waiter, 1, 1) == 'x' then return true end
  end
  return false
end
`

// waitUntilFree lets a request that has a place in the queue wait until nobody holds the key.
const waitUntilFree = `
local function mustWait()
  local place = call('ZSCORE', queue, member)
  if call('EXISTS', writer) == 1 or (place or not shared) and countReaders() > 0 then return true end
  for _, waiter in ipairs(call('ZRANGEBYSCORE', queue, '-inf', '(' .. (place or '+inf'))) do
    if not shared or string.sub(waiter, 1, 1) == 'x' then return true end
  end
  return false
end
`

// waitForAnyWriter considers all writers in the queue, for a reader.
const waitForAnyWriter = `
local function mustWait()
  if call('EXISTS', writer) == 1 or not shared and countReaders() > 0 then return true end
  local place = not shared and call('ZSCORE', queue, member) or '+inf'
  for _, waiter in ipairs(call('ZRANGEBYSCORE', queue, '-inf', '(' .. place)) do
    if not shared or string.sub(waiter, 1, 1) == 'x' then return true end
  end
  return false
end
`

// waitForFirst considers the first in the queue.
const waitForFirst = `
local function mustWait()
  if call('EXISTS', writer) == 1 or not shared and countReaders() > 0 then return true end
  local first = call('ZRANGE', queue, 0, 0)[1]
  return first and first ~= member and (not shared or string.sub(first, 1, 1) == 'x')
end
`

// enqueueForEver adds the request to the queue until it leaves.
const enqueueForEver = `
local function enqueue()
  local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or 0
  call('ZADD', queue, 'NX', last + 1, member)
end
`

// enqueueForTTL adds the request to the queue for as long as the lease that it requests.
const enqueueForTTL = `
local function enqueue()
  local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or 0
  call('ZADD', queue, 'NX', last + 1, member)
  call('ZADD', places, now + ttl, member)
  for _, name in ipairs({queue, places}) do
    if call('PTTL', name) < ttl then call('PEXPIRE', name, ttl) end
  end
end
`

// releaseLeaseOnly removes the lease of its owner, and leaves its place in the queue.
const releaseLeaseOnly = `
if shared then return removeReader() end
if call('GET', writer) ~= owner then return 0 end
return call('DEL', writer)
`
