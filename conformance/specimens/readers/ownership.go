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
		Story: "A reader asks whether a writer holds the key, and adds itself to the readers if none does. A writer does " +
			"the same the other way round. Each check is right when it is made. But between the check of the one and its " +
			"second command, the other enters, and a reader reads what a writer is writing. A slow network makes the gap " +
			"longer.",
		See:    "Redis manual, EVAL page: a script runs atomically",
		Right:  "Check and add in one script.",
		Sin:    []string{"takeInTwoSteps", "addScript"},
		Virtue: []string{"take", "acquire"},
		Open:   open(func(s *steps) { s.take = takeInTwoSteps }),
		Kills:  []specimens.Kill{{Check: "SharedUnderContention", Says: "double grant"}},
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
		},
	},
}

// takeInTwoSteps inspects the key, and then adds a reader if no writer holds the key or waits for it.
func takeInTwoSteps(ctx context.Context, s *store, r backend.Request) (answer, error) {
	found, err := parse(s.run(ctx, s.scripts.inspect, r.Key, "").Slice())
	held := found.owner != "" && found.shared == 0
	if err != nil || !r.Shared || held || found.waiters > 0 {
		return take(ctx, s, r)
	}
	token, err := s.run(ctx, addScript, r.Key, r.Owner, r.Shared, r.TTL.Milliseconds()).Uint64()
	return answer{token: token, owner: r.Owner}, err
}

// addScript adds the owner to the readers.
var addScript = redis.NewScript(arguments + keepReaders + addReader + `
addReader()
return call('INCR', tokens)
`)

const removeAll = `
local function removeReader() return call('DEL', readers) end
`
