package readers

import "github.com/anylock/lock/conformance/specimens"

var leases = []specimens.Specimen{
	{
		Name:  "counter-of-readers",
		Title: "A counter of readers with one TTL",
		Story: "The first reader sets a counter to 1, each further one increments it, and each release decrements it. Every " +
			"reader extends the counter's TTL. A reader that dies never decrements: as long as others come or renew, the " +
			"counter does not reach 0, and no writer gets the key.",
		See:    "tutorials that count readers by INCR and DECR; the counter of a semaphore has the same fault",
		Right:  "Each reader has an entry of its own, with the end of its own lease.",
		Sin:    []string{"countUp", "countDown", "countIsReader", "countReading", "countRenew"},
		Virtue: []string{"enterReader", "removeReader", "purge"},
		Open: open(func(how *steps) {
			how.purge, how.reading, how.isReader, how.enterReader = keepReaders, countReading, countIsReader, countUp
			how.renewReader, how.removeReader = countRenew, countDown
		}),
		Kills: []specimens.Kill{{Check: "DeadReaderEndsByOwnTTL", Says: "a dead reader's TTL has run out"}},
	},
	{
		Name:  "one-ttl-for-the-set",
		Title: "One TTL for the set of readers",
		Story: "The readers are a set with one TTL, which every new reader and every renewal extends. The set shows who reads, " +
			"but not who is alive: a dead reader stays in it as long as any other one renews, and the writer waits for " +
			"a process that ended long ago.",
		See:    "madelson/DistributedLock, RedisReaderWriterLock: one expiry for the set of readers",
		Right:  "Each reader has an end of its own: its score in a sorted set, which every request purges.",
		Sin:    []string{"keepReaders", "enterSet", "renewSet"},
		Virtue: []string{"purge", "enterReader", "renewReader"},
		Open: open(func(how *steps) {
			how.purge, how.enterReader, how.renewReader = keepReaders, enterSet, renewSet
		}),
		Kills: []specimens.Kill{
			{Check: "DeadReaderEndsByOwnTTL", Says: "a dead reader's TTL has run out"},
			{Check: "KilledReaderFreesKey", Says: "Inspect returns"},
		},
	},
	{
		Name:  "short-reader-cuts-long",
		Title: "A TTL of the set that the latest reader sets",
		Story: "As above, but the TTL of the set is that of whoever came or renewed last. A reader with a short TTL cuts those " +
			"of the others: the set ends, and a writer enters beside readers with most of their leases ahead of them.",
		See:    "Redisson issue 2144: a read lock with a short lease time ends the longer ones",
		Right:  "Each reader has an end of its own.",
		Sin:    []string{"keepReaders", "enterShort", "renewShort"},
		Virtue: []string{"enterReader", "renewReader"},
		Open: open(func(how *steps) {
			how.purge, how.enterReader, how.renewReader = keepReaders, enterShort, renewShort
		}),
		Kills: []specimens.Kill{{Check: "ShortReaderSparesLong", Says: "a second owner was granted the key"}},
	},
	{
		Name:  "watchdog-renews-every-reader",
		Title: "A renewal of every reader",
		Story: "Each reader has an end of its own, but the renewal, which runs in the server to save requests, goes through all " +
			"entries of the key and extends each. So every live reader renews the dead ones too, for as long as there is one.",
		See:    "Redisson pull request 7098: the watchdog of each read lock renewed those of dead readers",
		Right:  "A renewal moves the end of one reader.",
		Sin:    []string{"renewEvery"},
		Virtue: []string{"renewReader"},
		Open:   open(func(how *steps) { how.renewReader = renewEvery }),
		Kills:  []specimens.Kill{{Check: "DeadReaderEndsByOwnTTL", Says: "a dead reader's TTL has run out"}},
	},
	{
		Name:  "one-value-for-all-readers",
		Title: "One value shared by all readers",
		Story: "The key's value says that readers hold it, and nothing more, so that a new reader has nothing to write. The " +
			"first release deletes it for all: a writer enters while the others read.",
		See:    "Redisson issue 891: one unlock of a read lock frees those of all others",
		Right:  "A release removes the entry of one reader. The key is free when none is left.",
		Sin:    []string{"enterShared", "isShared", "renewShared", "removeShared"},
		Virtue: []string{"enterReader", "removeReader"},
		Open: open(func(how *steps) {
			how.enterReader, how.isReader, how.renewReader, how.removeReader = enterShared, isShared, renewShared, removeShared
		}),
		Kills: []specimens.Kill{{Check: "ReleaseEndsOneReader", Says: "reader"}},
	},
	{
		Name:  "readers-without-ttl",
		Title: "Entries of readers without a TTL",
		Story: "The writer's key expires. The readers' entries do not, because “readers do no harm”: they are removed on release. " +
			"A reader that is killed stays for good, and with it the key is closed to every writer until an operator deletes it.",
		See:    "rustfs issue 5939: entries of dead readers stop all writers",
		Right:  "A reader's entry has an end, like a writer's.",
		Sin:    []string{"enterForGood"},
		Virtue: []string{"enterReader"},
		Open:   open(func(how *steps) { how.enterReader = enterForGood }),
		Kills:  []specimens.Kill{{Check: "KilledReaderFreesKey", Says: "Inspect returns"}},
	},
	{
		Name:  "stale-renewal-revives",
		Title: "A renewal that adds the reader again",
		Story: "ZADD moves the end of a reader that is there, and adds one that is not. After a pause the renewal of a reader " +
			"whose lease has ended brings it back, beside the writer that entered meanwhile.",
		See:    "Redis manual, ZADD: XX only updates elements that exist",
		Right:  "Renew an entry that is there and has not ended.",
		Sin:    []string{"renewByAdding"},
		Virtue: []string{"renewReader"},
		Open:   open(func(how *steps) { how.renewReader = renewByAdding }),
		Kills:  []specimens.Kill{{Check: "LateReaderRequestsTouchNothing", Says: "reader"}},
	},
}

// keepReaders is purge without readers: their set ends as a whole.
const keepReaders = `
local function purge()
  for _, w in ipairs(call('ZRANGEBYSCORE', SEEN, '-inf', now)) do
    call('ZREM', QUEUE, w)
    call('ZREM', SEEN, w)
  end
end`

const enterSet = `
local function enterReader()
  call('ZADD', READERS, now + ttl, owner)
  call('PEXPIRE', READERS, math.max(ttl, call('PTTL', READERS)))
end`

const renewSet = `
local function renewReader()
  if not call('ZSCORE', READERS, owner) then return 0 end
  call('ZADD', READERS, now + ttl, owner)
  return call('PEXPIRE', READERS, math.max(ttl, call('PTTL', READERS)))
end`

const enterShort = `
local function enterReader()
  call('ZADD', READERS, now + ttl, owner)
  call('PEXPIRE', READERS, ttl)
end`

const renewShort = `
local function renewReader()
  if not call('ZSCORE', READERS, owner) then return 0 end
  call('ZADD', READERS, now + ttl, owner)
  return call('PEXPIRE', READERS, ttl)
end`

const renewEvery = `
local function renewReader()
  if not call('ZSCORE', READERS, owner) then return 0 end
  for _, reader in ipairs(call('ZRANGE', READERS, 0, -1)) do call('ZADD', READERS, now + ttl, reader) end
  return 1
end`

// The counter is the only member of the set; the last reader to come is known by its name.
const (
	countUp = `
local function enterReader()
  call('HSET', TOKENS, 'last', owner)
  call('ZADD', READERS, now + ttl, 'count')
  call('HINCRBY', TOKENS, 'readers', 1)
  call('PEXPIRE', READERS, math.max(ttl, call('PTTL', READERS)))
end`

	countDown = `
local function removeReader()
  if call('EXISTS', READERS) == 0 then return 0 end
  if call('HINCRBY', TOKENS, 'readers', -1) <= 0 then call('DEL', READERS) end
  return 1
end`

	countReading = `
local function reading()
  if call('EXISTS', READERS) == 0 then return 0 end
  return tonumber(call('HGET', TOKENS, 'readers') or 0)
end`

	countIsReader = `
local function isReader() return false end`

	countRenew = `
local function renewReader()
  return call('PEXPIRE', READERS, math.max(ttl, call('PTTL', READERS)))
end`
)

const (
	enterShared = `
local function enterReader() call('ZADD', READERS, now + ttl, 'readers') end`

	isShared = `
local function isReader() return false end`

	renewShared = `
local function renewReader() return call('ZADD', READERS, 'XX', 'CH', now + ttl, 'readers') end`

	removeShared = `
local function removeReader() return call('ZREM', READERS, 'readers') end`
)

const enterForGood = `
local function enterReader() call('ZADD', READERS, '+inf', owner) end`

const renewByAdding = `
local function renewReader()
  call('ZADD', READERS, now + ttl, owner)
  return 1
end`
