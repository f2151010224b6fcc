package readers

import "github.com/anylock/lock/conformance/specimens"

// What the set of readers is kept in.
var sets = []specimens.Specimen{
	{
		Name:  "counter-with-one-ttl",
		Title: "A counter of readers with one TTL",
		Story: "Each reader increments a counter and sets its expiry, and decrements the counter at its release. The " +
			"counter cannot tell which reader is dead. If a reader crashes, nobody decrements the counter for that reader. " +
			"The TTL should end it, but every new reader and every renewal extends the one TTL of all. On a busy key a " +
			"writer then waits for a dead reader until no other reader has come for a whole TTL.",
		See:    "Redis manual, EXPIRE page: a timeout belongs to a key, not to a part of its value",
		Right:  "Each reader is an entry of its own, with an end of its own, by the server's clock.",
		Sin:    []string{"counter"},
		Virtue: []string{"addReader", "dropReaders"},
		Open:   open(replaceReaders(counter)),
		Kills: []specimens.Kill{
			{Check: "DeadReaderEndsByOwnTTL", Says: "a dead reader's TTL has run out, and meanwhile"},
			{Check: "KilledReaderFreesKey", Says: "when the TTL of a killed reader has run out"},
		},
	},
	{
		Name:  "set-with-one-ttl",
		Title: "A set of readers with one TTL",
		Story: "The readers are a set, so that each can remove itself and nobody else. But a member of a set has no " +
			"expiry; only the whole set has. Every reader extends the TTL of the set, at its start and with each renewal. " +
			"A dead reader stays in the set as long as any other reader renews, and no writer gets in. The reader lock of " +
			"DistributedLock (.NET) on Redis is such a set.",
		See:    "DistributedLock (.NET), the reader-writer lock of its Redis package",
		Right:  "A sorted set, where the score is the end of the reader's own lease.",
		Sin:    []string{"setWithOneTTL"},
		Virtue: []string{"addReader", "dropReaders"},
		Open:   open(replaceReaders(setWithOneTTL)),
		Kills: []specimens.Kill{
			{Check: "DeadReaderEndsByOwnTTL", Says: "a dead reader's TTL has run out, and meanwhile"},
			{Check: "KilledReaderFreesKey", Says: "when the TTL of a killed reader has run out"},
		},
	},
	{
		Name:  "readers-without-ttl",
		Title: "Readers without an expiry",
		Story: "The writer's key has a TTL, but readers are only added to a set and removed at their release. A reader " +
			"that crashes stays in the set for ever. Reads go on as if nothing had happened, so that nobody notices " +
			"until a write is due. From then on every write fails, until an operator deletes the entry by hand. Stale " +
			"read entries without a TTL caused an outage in rustfs.",
		See:    "rustfs issue 5939",
		Right:  "Every reader has an expiry, and a live reader renews it.",
		Sin:    []string{"setWithoutTTL"},
		Virtue: []string{"addReader", "dropReaders"},
		Open:   open(replaceReaders(setWithoutTTL)),
		Kills: []specimens.Kill{
			{Check: "ReaderTTL", Says: "still refused to an attempt made"},
			{Check: "KilledReaderFreesKey", Says: "when the TTL of a killed reader has run out"},
		},
	},
	{
		Name:  "one-value-for-all-readers",
		Title: "One value shared by all readers",
		Story: "The key has a mode as its value: write or read. A reader that finds “read” may enter, and extends the " +
			"expiry. The value does not show how many readers there are, so the first reader that is done deletes the " +
			"key. A writer enters while the other readers still read. Their own releases then delete the key of the next " +
			"readers.",
		See:    "read-write locks that extend SET NX PX by a mode",
		Right:  "Each reader is an entry of its own, and removes only that entry.",
		Sin:    []string{"oneValue"},
		Virtue: []string{"addReader", "removeReader"},
		Open:   open(replaceReaders(oneValue)),
		Kills: []specimens.Kill{
			{Check: "ReadersExcludeWriter", Says: "a second owner was granted the key"},
			{Check: "SharedWaitOutlivesOwnTTL", Says: "a second owner was granted the key"},
		},
	},
	{
		Name:  "short-ttl-cuts-long",
		Title: "A short TTL that cuts a long one",
		Story: "Each reader has its own end inside one key of Redis, and the key itself must expire, so that nothing " +
			"is left behind. Every reader sets the expiry of the key to its own TTL. A reader with a short TTL then ends " +
			"those with a long one, which learn of it at their next renewal at best. A writer enters beside them. Redisson " +
			"had this bug: a short reader cut a long one.",
		See:    "Redisson issue 2144",
		Right:  "The key expires with the reader that ends last.",
		Sin:    []string{"keepForOwnTTL"},
		Virtue: []string{"keepReaders"},
		Open:   open(func(s *steps) { s.keepReaders = keepForOwnTTL }),
		Kills: []specimens.Kill{
			{Check: "ShortReaderSparesLong", Says: "a second owner was granted the key"},
			{Check: "WriterGetsKeyOfDeadReaders", Says: "double grant: a waiter was granted the key"},
		},
	},
}

// replaceReaders replaces all functions for the set of readers.
func replaceReaders(by string) func(s *steps) {
	return func(s *steps) {
		s.dropReaders, s.keepReaders, s.addReader, s.reads, s.renewReader = "", "", by, "", ""
		s.removeReader, s.countReaders, s.lastReader = "", "", ""
	}
}

// counter keeps the number of readers.
const counter = `
local function reads() return false end
local function addReader()
  call('INCR', readers)
  if call('PTTL', readers) < ttl then call('PEXPIRE', readers, ttl) end
end
local function renewReader()
  if call('EXISTS', readers) == 0 then return 0 end
  if call('PTTL', readers) < ttl then call('PEXPIRE', readers, ttl) end
  return 1
end
local function removeReader()
  if call('EXISTS', readers) == 0 then return 0 end
  if call('DECR', readers) <= 0 then call('DEL', readers) end
  return 1
end
local function countReaders() return tonumber(call('GET', readers) or 0) end
local function lastReader() return 'a reader', call('PTTL', readers) end
`

// setWithOneTTL keeps the owners of all readers, which expire together.
const setWithOneTTL = `
local function reads() return call('SISMEMBER', readers, owner) == 1 end
local function addReader()
  call('SADD', readers, owner)
  if call('PTTL', readers) < ttl then call('PEXPIRE', readers, ttl) end
end
local function renewReader()
  if not reads() then return 0 end
  addReader()
  return 1
end
local function removeReader() return call('SREM', readers, owner) end
local function countReaders() return call('SCARD', readers) end
local function lastReader() return call('SRANDMEMBER', readers), call('PTTL', readers) end
`

// setWithoutTTL keeps the owners of all readers until they are removed.
const setWithoutTTL = `
local function reads() return call('SISMEMBER', readers, owner) == 1 end
local function addReader() call('SADD', readers, owner) end
local function renewReader() return call('SISMEMBER', readers, owner) end
local function removeReader() return call('SREM', readers, owner) end
local function countReaders() return call('SCARD', readers) end
local function lastReader() return call('SRANDMEMBER', readers), 0 end
`

// oneValue keeps only that there are readers.
const oneValue = `
local function reads() return false end
local function addReader() call('SET', readers, 'read', 'PX', math.max(ttl, call('PTTL', readers))) end
local function renewReader()
  if call('EXISTS', readers) == 0 then return 0 end
  addReader()
  return 1
end
local function removeReader() return call('DEL', readers) end
local function countReaders() return call('EXISTS', readers) end
local function lastReader() return 'a reader', call('PTTL', readers) end
`

const keepForOwnTTL = `
local function keepReaders() call('PEXPIRE', readers, ttl) end
`
