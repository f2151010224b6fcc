package readers

import "github.com/anylock/lock/conformance/specimens"

var renewal = []specimens.Specimen{
	{
		Name:  "watchdog-renews-every-reader",
		Title: "A watchdog that renews every reader",
		Story: "A background thread renews the lock of its process. It walks through all entries of the key and extends " +
			"each, those of other processes too. The entry of a process that has crashed never expires as long as any " +
			"reader lives, although each entry has an expiry of its own. Redisson's watchdogs did this: each renewed the " +
			"dead readers too.",
		See:    "Redisson pull request 7098",
		Right:  "A renewal extends the entry of its own owner, and no other.",
		Sin:    []string{"renewAll"},
		Virtue: []string{"renewReader"},
		Open:   open(func(s *steps) { s.renewReader = renewAll }),
		Kills: []specimens.Kill{
			{Check: "DeadReaderEndsByOwnTTL", Says: "a dead reader's TTL has run out, and meanwhile others were renewed"},
			{Check: "KilledReaderFreesKey", Says: "when the TTL of a killed reader has run out"},
		},
	},
	{
		Name:  "readers-are-not-renewed",
		Title: "A watchdog that renews only the writer",
		Story: "The renewal was written for the exclusive lock, and shared locks came later. For a reader it finds that " +
			"the lock exists, reports success, and extends nothing. Reads that are shorter than one TTL work. A longer one " +
			"loses its lease in the middle, without a notification, and a writer enters beside it. In Redisson, " +
			"readers were not renewed.",
		See:    "Redisson issue 1604",
		Right:  "The same renewal for readers as for writers, of the reader's own end.",
		Sin:    []string{"renewNothing"},
		Virtue: []string{"renewReader"},
		Open:   open(func(s *steps) { s.renewReader = renewNothing }),
		Kills: []specimens.Kill{
			{Check: "ReadersAreRenewedEach", Says: "of one of 3 readers", OrSays: "double grant: a waiter was granted the key"},
			{Check: "SharedWaitOutlivesOwnTTL", Says: "a second owner was granted the key"},
		},
	},
	{
		Name:  "renewal-adds-the-reader",
		Title: "A renewal that adds the reader again",
		Story: "A reader renews with the same ZADD with which it entered. If its lease has ended in the meantime, because " +
			"the process was paused or the network was slow, ZADD adds the reader again. By then a writer may have " +
			"held the key, or may hold it still. The reader does not learn of its loss, and goes on beside the writer.",
		See:    "Redis manual, ZADD page: a member that does not exist is added",
		Right:  "Extend only an entry that exists and has not ended. Otherwise the lease is lost.",
		Sin:    []string{"renewByAdding"},
		Virtue: []string{"renewReader"},
		Open:   open(func(s *steps) { s.renewReader = renewByAdding }),
		Kills: []specimens.Kill{
			{Check: "EvictedReadersReviveNothing", Says: "of a reader that the store has dropped: <nil>, want ErrLost"},
			{Check: "LateReaderRequestsTouchNothing", Says: "a Renew of a reader that came late to the store"},
		},
	},
}

const renewAll = `
local function renewReader()
  if not reads() then return 0 end
  for _, reader in ipairs(call('ZRANGE', readers, 0, -1)) do call('ZADD', readers, 'GT', now + ttl, reader) end
  keepReaders()
  return 1
end
`

const renewNothing = `
local function renewReader() return reads() and 1 or 0 end
`

const renewByAdding = `
local function renewReader()
  call('ZADD', readers, now + ttl, owner)
  keepReaders()
  return 1
end
`
