package redis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

var clients = []specimens.Specimen{
	{
		Name:  "deadline-from-the-reply",
		Title: "A deadline counted from the reply",
		Story: "The client notes the time when the answer is there, and adds the TTL. The server counted from when the request " +
			"arrived: whatever the answer took, a slow network, a garbage collection, a server that hung, the holder believes in " +
			"its lock for that much longer than it has it.",
		See:    "Redis manual, Distributed locks page: the validity is the TTL less the time elapsed since before the request",
		Right:  "Take the time before sending, and leave a margin for clocks of different speeds.",
		Sin:    []string{"afterReply"},
		Virtue: []string{"right"},
		Open:   open(func(s *store) { s.sent = afterReply }),
		Kills:  []specimens.Kill{{Check: "DeadlineAnchoredBeforeSend", Says: "deadline"}},
	},
	{
		Name:  "lost-never-closed",
		Title: "A loss without a notification",
		Story: "The lock has an expiry, and the program has no way to hear of it: no channel, no callback, or a line in a log. " +
			"A holder whose renewals fail works on beside the next one, and finds out when it releases, if it looks at the " +
			"result. In Redisson a watchdog that fails writes to the log; the request for a callback is open since 2022.",
		See:    "Redisson issue 4698; DistributedLock (.NET) issues 6 and 133",
		Right:  "A timer on the holder's own clock closes Lost at the deadline, and no message from anywhere is needed for it.",
		Sin:    []string{"deaf"},
		Virtue: []string{"right"},
		Open:   open(func(s *store) { s.hand = func(_ *store, l *kit.Life) backend.Lease { return deaf{l} } }),
		Kills:  []specimens.Kill{{Check: "LostAtDeadline", Says: "Lost"}},
	},
	{
		Name:  "context-ignored",
		Title: "A client library that ignores the context",
		Story: "go-redis takes a context for every command, and by default does not let its deadline end a read: that needs " +
			"ContextTimeoutEnabled. A server that hangs keeps the caller for all timeouts and repetitions of the library. " +
			"Measured of redsync and redislock: a deadline of 100 ms, and a lock returned after 201 ms by a server that is slow.",
		See:    "go-redis, Options.ContextTimeoutEnabled; redsync's per-node timeout has no effect for the same reason",
		Right:  "Return when the context ends, whatever the library does, and clean up what its request may still do.",
		Sin:    []string{"asLibraryDoes"},
		Virtue: []string{"ask"},
		Open: open(func(s *store) {
			_ = s.client.Close()
			s.client = redis.NewClient(&redis.Options{Addr: s.client.Options().Addr})
			s.ask = asLibraryDoes
		}),
		Kills: []specimens.Kill{{Check: "FrozenStoreHonoursContext", Says: "Acquire with a context of 200ms took"}},
	},
	{
		Name:  "own-ghost",
		Title: "A retried request that does not recognise its own owner",
		Story: "go-redis repeats a command whose connection broke, up to three times. A SET with NX whose answer was lost has " +
			"been done already: repeated, it is refused by its own first try. The caller hears that the key is busy, and the key " +
			"is held by nobody for a whole TTL. Measured with one lost answer: go-redis' SetNX says false without an error, " +
			"redsync ErrTaken.",
		See:    "go-redis issue 2985; redsync",
		Right:  "A request that finds its own owner in the key has got it: the answer is the same however often it is asked.",
		Sin:    []string{"takeOnce", "takeOnceScript"},
		Virtue: []string{"takeScript"},
		Open:   open(func(s *store) { s.take = takeOnce; repeating(s) }),
		Kills:  []specimens.Kill{{Check: "LostAcquireReplyLeavesNothing", Says: "held by"}},
	},
	{
		Name:  "release-repeated-unasked",
		Title: "A release that the client library retries",
		Story: "The script that compares and removes has run, and its answer is lost with the connection. go-redis sends it once " +
			"more, and this time there is nothing to remove: the caller hears that the lock was lost before it was released. It " +
			"was not, and whoever takes the loss seriously, and rolls back, does so for nothing. This specimen was no idea of " +
			"ours: it was the twin, until it went through the suite.",
		See:    "go-redis, Options.MaxRetries: 3 by default",
		Right:  "No repetition by the library. Who repeats a release by itself knows that \"nothing there\" then means released.",
		Sin:    []string{"repeating"},
		Virtue: []string{"options"},
		Open:   open(repeating),
		Kills:  []specimens.Kill{{Check: "LostReleaseReplyIsNoLoss", Says: "lease lost"}},
	},
	{
		Name:  "no-clean-up",
		Title: "A cancelled request without cleanup",
		Story: "The context ends while the request is on its way: the caller gets the context's error, and the server grants the " +
			"key to nobody, for a whole TTL. Measured of redsync and redislock with deadlines in force: both return an " +
			"error and leave a key of 7.6 s. redsync does try to clean up, with the context that has just ended.",
		See:    "bsm/redislock issues 79 and 88",
		Right:  "Without an answer the outcome is unknown: remove by owner in the background, on a context of its own.",
		Sin:    []string{"nothing"},
		Virtue: []string{"right"},
		Open:   open(func(s *store) { s.abandon = nothing }),
		Kills:  []specimens.Kill{{Check: "CancelRacesAttempt", Says: "the key did not become free"}},
	},
}

func afterReply(_, after time.Time) time.Time { return after }

// A deaf lease hears of nothing.
type deaf struct{ *kit.Life }

func (deaf) Lost() <-chan struct{} { return nil }
func (deaf) OnLost(func())         {}

func asLibraryDoes(ctx context.Context, _ *store, request request, _ func()) (answer, error) {
	return request(ctx)
}

// takeOnce asks as SET with NX and GET does: it returns the holder, and does not compare the holder with the caller.
func takeOnce(ctx context.Context, s *store, r backend.Request) (answer, error) {
	a, err := parse(takeOnceScript.Run(ctx, s.client, names(r.Key), r.Owner, r.TTL.Milliseconds()).Slice())
	if err == nil && a.left > 0 { // it was there
		return answer{}, &backend.HeldError{Holder: a.holder()}
	}
	return a, err
}

var takeOnceScript = redis.NewScript(`
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return {redis.call('INCR', KEYS[2]), ARGV[1], 0}
end
return {0, redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}`)

func nothing(*store, backend.Request) {}

// takeCounting counts grants where they arrive.
func takeCounting() func(ctx context.Context, s *store, r backend.Request) (answer, error) {
	var grants atomic.Uint64
	return func(ctx context.Context, s *store, r backend.Request) (answer, error) {
		a, err := take(ctx, s, r)
		if err == nil && a.owner == r.Owner {
			a.token = grants.Add(1)
		}
		return a, err
	}
}
