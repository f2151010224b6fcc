package readers

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
)

var ownership = []specimens.Specimen{
	{
		Name:  "check-then-add",
		Title: "A check for a writer, then the reader in a second command",
		Story: "A reader checks in one command whether a writer holds the key, and adds itself to the readers in the next. " +
			"The check is right when it is made. But a writer may enter between the two commands, and the reader then reads " +
			"what the writer is writing. On one host this is rare; a slow network makes the gap longer.",
		See:    "Redis manual, Scripting with Lua page: a script runs atomically",
		Right:  "Check and add in one script.",
		Sin:    []string{"acquireWithoutReader", "takeInTwoSteps", "addScript"},
		Virtue: []string{"take", "acquire"},
		Open:   open(func(s *steps) { s.acquire, s.take = acquireWithoutReader, takeInTwoSteps }),
		Kills: []specimens.Kill{
			{Check: "SharedHistoryUnderContention", Says: "double grant"},
			{Check: "MixedQueueFollowsModel", Says: "double grant"},
		},
	},
	{
		Name:  "release-frees-all-readers",
		Title: "A release that frees all readers",
		Story: "The readers are entries of one key, and the release deletes the key: it was written for a lock that has " +
			"one holder. The first reader that is done ends the leases of all others. A writer enters beside them. " +
			"Redisson had this bug: one unlock freed all.",
		See:    "Redisson issue 891",
		Right:  "A release removes the entry of its own owner, and no other.",
		Sin:    []string{"removeAll"},
		Virtue: []string{"removeReader"},
		Open:   open(func(s *steps) { s.removeReader = removeAll }),
		Kills: []specimens.Kill{
			{Check: "ReadersExcludeWriter", Says: "a second owner was granted the key"},
			{Check: "ReleaseEndsOneReader", Says: "Inspect returns 0 shared leases"},
			{Check: "SharedWaitOutlivesOwnTTL", Says: "a second owner was granted the key"},
		},
	},
}

// acquireWithoutReader checks whether a reader may enter, and does not add it.
const acquireWithoutReader = `
if not shared and call('GET', writer) == owner then
  if call('PTTL', writer) < ttl then call('PEXPIRE', writer, ttl) end
  return describe()
end
if shared and reads() or not mustWait() then
  dequeue()
  if not shared then call('SET', writer, owner, 'PX', ttl) end
  return {shared and 0 or call('INCR', tokens), owner, ttl, 0, 0}
end
if waits then enqueue() end
return describe()
`

// takeInTwoSteps adds a reader when the server has replied that it may enter.
func takeInTwoSteps(ctx context.Context, s *store, r backend.Request) (answer, error) {
	a, err := take(ctx, s, r)
	if err == nil && r.Shared && a.owner == r.Owner {
		a.token, err = s.run(ctx, addScript, r.Key, r.Owner, r.Shared, r.TTL.Milliseconds()).Uint64()
	}
	return a, err
}

var addScript = redis.NewScript(arguments + keepReaders + addReader + `
addReader()
return call('INCR', tokens)
`)

const removeAll = `
local function removeReader() return call('DEL', readers) end
`
