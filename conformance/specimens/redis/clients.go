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
		Story: "The client reads its clock when the reply arrives, and adds the TTL. But the server counts from " +
			"the arrival of the request. If the reply is delayed, by a slow network, a garbage collection or a server " +
			"that hung, the holder relies on its lock for that much longer than it has it.",
		See: "Redis manual, Distributed locks page: the validity is the TTL less the time elapsed since " +
			"before the request",
		Right:  "Read the clock before sending, and subtract a margin for clocks of different speeds.",
		Sin:    []string{"afterReply"},
		Virtue: []string{"right"},
		Open:   open(func(s *store) { s.sent = afterReply }),
		Kills:  []specimens.Kill{{Check: "DeadlineAnchoredBeforeSend", Says: "deadline"}},
	},
	{
		Name:  "lost-never-closed",
		Title: "A loss without a notification",
		Story: "The lock has an expiry, but the program is not notified of it: there is no channel and no " +
			"callback, or only a line in a log. A holder whose renewals fail works at the same time as the next " +
			"holder, and finds out at its release, if it checks the result. In Redisson a failed watchdog writes to " +
			"the log; the request for a callback has been open since 2022.",
		See:    "Redisson issue 4698; DistributedLock (.NET) issues 6 and 133",
		Right:  "A timer on the holder's own clock closes Lost at the deadline. No message is needed.",
		Sin:    []string{"deaf"},
		Virtue: []string{"right"},
		Open:   open(func(s *store) { s.hand = func(_ *store, l *kit.Life) backend.Lease { return deaf{l} } }),
		Kills:  []specimens.Kill{{Check: "LostAtDeadline", Says: "Lost"}},
	},
	{
		Name:  "context-ignored",
		Title: "A client library that ignores the context",
		Story: "go-redis accepts a context for every command, but by default its deadline does not end a read: " +
			"this needs ContextTimeoutEnabled. If the server hangs, the caller waits for all timeouts and retries of " +
			"the library. Measured with redsync and redislock: with a deadline of 100 ms, a slow server returned a " +
			"lock after 201 ms.",
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
		Story: "go-redis repeats a command whose connection broke, up to three times. If only the reply of a SET " +
			"with NX was lost, the repetition is refused because of the first attempt. The caller gets “busy”, and " +
			"the key has no holder for a whole TTL. Measured with one lost reply: SetNX of go-redis returns false " +
			"without an error, and redsync returns ErrTaken.",
		See: "go-redis issue 2985; redsync",
		Right: "A request that finds its own owner in the key has succeeded: the reply is the same for every " +
			"repetition.",
		Sin:    []string{"takeOnce", "takeOnceScript"},
		Virtue: []string{"takeScript"},
		Open:   open(func(s *store) { s.take = takeOnce; repeating(s) }),
		Kills:  []specimens.Kill{{Check: "LostAcquireReplyLeavesNothing", Says: "held by"}},
	},
	{
		Name:  "release-repeated-unasked",
		Title: "A release that the client library retries",
		Story: "The script compares and removes, and its reply is lost with the connection. go-redis sends the " +
			"script again, which now finds nothing. The caller gets the error that the lock was lost before its " +
			"release. It was not, and a caller that rolls back does so for nothing. We did not invent this specimen: " +
			"it was the twin, until it ran through the suite.",
		See: "go-redis, Options.MaxRetries: 3 by default",
		Right: "Turn off the library's retries. Code that repeats a release by itself knows that a missing key " +
			"then means released.",
		Sin:    []string{"repeating"},
		Virtue: []string{"Options"},
		Open:   open(repeating),
		Kills:  []specimens.Kill{{Check: "LostReleaseReplyIsNoLoss", Says: "lease lost"}},
	},
	{
		Name:  "no-clean-up",
		Title: "A cancelled request without cleanup",
		Story: "The context ends while the request is in flight. The caller gets the context's error, and the " +
			"server grants the key, which has no holder for a whole TTL. Measured with redsync and redislock, with " +
			"deadlines in force: both return an error and leave a key for 7.6 s. redsync tries to clean up, but with " +
			"the context that has just ended.",
		See:    "bsm/redislock issues 79 and 88",
		Right:  "Without a reply the outcome is unknown: remove by owner in the background, with a separate context.",
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
