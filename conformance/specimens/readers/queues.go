package readers

import "github.com/anylock/lock/conformance/specimens"

var queues = []specimens.Specimen{
	{
		Name:  "readers-first",
		Title: "Readers that pass waiting writers",
		Story: "A reader enters whenever no writer holds the key. Under a stream of readers, of which one always begins before " +
			"the others have ended, a writer waits for ever.",
		See:    "minio issue 2629; Redisson issue 5379; the first readers-writers problem of P.-J. Courtois et al., 1971",
		Right:  "No reader passes a waiting writer.",
		Sin:    []string{"readAlways"},
		Virtue: []string{"mayRead"},
		Open:   open(func(how *steps) { how.mayRead = readAlways }),
		Kills: []specimens.Kill{
			{Check: "NoReaderPassesWaitingWriter", Says: "a shared request passed an exclusive one"},
			{Check: "WriterOutwaitsStream", Says: "was granted before it", OrSays: "has not been granted"},
		},
	},
	{
		Name:  "try-ignores-the-queue",
		Title: "An attempt that ignores the queue",
		Story: "Readers that wait stand in the queue behind the writer, as they must. One that only tries does not look at the " +
			"queue, because it does not join it. Programs that try in a loop starve every writer.",
		See:    "try methods of read locks that look at the holder alone, as java.util.concurrent's tryLock() does on purpose",
		Right:  "An attempt is refused while a writer waits.",
		Sin:    []string{"tryAlways"},
		Virtue: []string{"mayRead"},
		Open:   open(func(how *steps) { how.mayRead = tryAlways }),
		Kills:  []specimens.Kill{{Check: "TrySharedBehindWaitingWriter", Says: "which an exclusive request waits for"}},
	},
	{
		Name:  "waits-for-later-writers",
		Title: "A reader that waits for later writers",
		Story: "A reader waits until there is no writer in the queue, wherever the writer stands. A writer that came later waits " +
			"for the reader, and the reader for the writer: a deadlock.",
		See:    "kazoo issue 649: readers waited for later writers",
		Right:  "A reader waits for the writers ahead of it.",
		Sin:    []string{"readBehindAnyWriter"},
		Virtue: []string{"mayRead"},
		Open:   open(func(how *steps) { how.mayRead = readBehindAnyWriter }),
		Kills:  []specimens.Kill{{Check: "ReadersIgnoreLaterWriter", Says: "have entered within"}},
	},
	{
		Name:  "readers-one-by-one",
		Title: "Readers that enter one by one after a writer",
		Story: "The release of a lease wakes one waiter, whether the waiter reads or writes. Behind a writer the readers enter " +
			"one after the other, each at the release of the one before it, although they could all enter at once.",
		See:    "Redisson issue 1542: after a write lock, waiting readers go one by one",
		Right:  "When a writer leaves, all readers at the head of the queue enter.",
		Sin:    []string{"readAlone"},
		Virtue: []string{"mayRead"},
		Open:   open(func(how *steps) { how.mayRead = readAlone }),
		Kills:  []specimens.Kill{{Check: "ReadersEnterTogether", Says: "have entered within"}},
	},
	{
		Name:  "cancelled-writer-parks-readers",
		Title: "A cancelled writer that keeps readers out",
		Story: "A writer that waits leaves a mark, so that no reader passes it. When the writer gives up, because its context ends or its " +
			"time is up, nobody removes the mark. Readers wait for a writer that does not exist, until the mark expires.",
		See:    "microsoft/vs-threading issue 252: readers behind a writer that timed out are never woken",
		Right:  "A waiter that gives up removes its place, and the readers behind it enter at once.",
		Sin:    []string{"leaveMark", "seenForLong"},
		Virtue: []string{"leave", "seen"},
		Open:   open(func(how *steps) { how.leave, how.seen = leaveMark, seenForLong }),
		Kills: []specimens.Kill{
			{Check: "LeavingWriterFreesReaders", Says: "have entered within", OrSays: "is still refused"},
		},
	},
}

const readAlways = `
local function mayRead() return call('EXISTS', WRITER) == 0 end`

const tryAlways = `
local function mayRead()
  if call('EXISTS', WRITER) == 1 then return false end
  if wait == 0 then return true end
  for _, w in ipairs(call('ZRANGE', QUEUE, 0, -1)) do
    if w == me then return true end
    if string.sub(w, 1, 1) == 'w' then return false end
  end
  return true
end`

const readBehindAnyWriter = `
local function mayRead()
  if call('EXISTS', WRITER) == 1 then return false end
  for _, w in ipairs(call('ZRANGE', QUEUE, 0, -1)) do
    if string.sub(w, 1, 1) == 'w' then return false end
  end
  return true
end`

// readAlone lets a reader that has waited enter when nobody reads.
const readAlone = `
local function mayRead()
  local waited = call('ZSCORE', QUEUE, me)
  if call('EXISTS', WRITER) == 1 or waited and reading() > 0 then return false end
  for _, w in ipairs(call('ZRANGE', QUEUE, 0, -1)) do
    if w == me then return true end
    if string.sub(w, 1, 1) == 'w' then return false end
  end
  return true
end`

// leaveMark removes a place only when the key is granted to it.
const leaveMark = `
local function leave()
  if ttl == 0 then return 0 end
  call('ZREM', SEEN, me)
  return call('ZREM', QUEUE, me)
end`

const seenForLong = `
local function seen()
  if not call('ZSCORE', QUEUE, me) then call('ZADD', QUEUE, call('INCR', COUNT), me) end
  call('ZADD', SEEN, now + 60000, me)
end`
