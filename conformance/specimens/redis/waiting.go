package redis

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
)

var waiting = []specimens.Specimen{
	{
		Name:  "blpop-signal",
		Title: "Waiting with BLPOP alone",
		Story: "Who releases pushes a signal to a list, and who waits blocks in BLPOP on it: no polling, and one waiter wakes up " +
			"for each release. But a holder that dies pushes nothing. Its key expires, and the waiters are parked on a free key " +
			"for as long as nobody else comes by. Tokens that are passed along by a list alone have the same fault: the one who " +
			"holds the token takes it to the grave.",
		See:    "python-redis-lock, whose signal list this is, bounds the BLPOP by the lock's expiry for that reason",
		Right:  "A wake-up is a hint. A timer always backs it.",
		Sin:    []string{"waitForSignal", "signal"},
		Virtue: []string{"wait"},
		Open:   open(func(s *store) { s.wait, s.afterRelease = waitForSignal, signal }),
		Kills:  []specimens.Kill{{Check: "WaiterGetsExpiredKey", Says: "a waiter has not been granted the free key"}},
	},
	{
		Name:  "publish-alone",
		Title: "Subscribing only after the refusal",
		Story: "Who is refused subscribes to the key's channel and waits for the message of the release. A release between the " +
			"refusal and the subscription is missed, and so is every message while the connection is away. An expiry sends " +
			"none. Any of these parks the waiter for good. It was measured of rueidislock, which has no timer either: waiters " +
			"parked on an absent key in 15 of 40 rounds.",
		See:    "Redisson issue 1763, unlock before subscribe; rueidis issue 653, waiting on a free lock",
		Right:  "Subscribe first and look again, and let a timer back the messages. Polling, as in the twin, needs no message.",
		Sin:    []string{"waitForMessage", "publish"},
		Virtue: []string{"wait"},
		Open:   open(func(s *store) { s.wait, s.afterRelease = waitForMessage, publish }),
		Kills: []specimens.Kill{
			{Check: "WaiterGetsExpiredKey", Says: "a waiter has not been granted the free key"},
		},
	},
	{
		Name:  "waits-for-its-ttl",
		Title: "A wait limited by the requested TTL",
		Story: "How long to wait was never said, so the TTL that the lock shall have is taken for that as well. It is the wrong " +
			"number: a lock of two seconds is given up after two seconds of waiting, and the caller hears that the key is " +
			"busy, or an error of a context that it never made.",
		See:    "bsm/redislock issues 21, 28 and 74",
		Right:  "A waiter waits until its context ends.",
		Sin:    []string{"waitForTTL"},
		Virtue: []string{"wait"},
		Open:   open(func(s *store) { s.wait = waitForTTL }),
		Kills:  []specimens.Kill{{Check: "WaitOutlivesOwnTTL", Says: "context deadline exceeded"}},
	},
}

func signalName(key string) string { return "specimen:signal:" + key }

func signal(s *store, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = s.client.RPush(ctx, signalName(key), "free").Err()
}

func waitForSignal(ctx context.Context, s *store, r backend.Request, try try) (backend.Lease, error) {
	for {
		l, err := try(ctx)
		if !errors.Is(err, backend.ErrHeld) {
			return l, err
		}
		_, err = ask(ctx, s, func(ctx context.Context) (answer, error) {
			return answer{}, s.client.BLPop(context.WithoutCancel(ctx), 0, signalName(r.Key)).Err()
		}, func() {})
		if err != nil {
			return nil, s.failed(ctx, err)
		}
	}
}

func publish(s *store, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = s.client.Publish(ctx, signalName(key), "free").Err()
}

func waitForMessage(ctx context.Context, s *store, r backend.Request, try try) (backend.Lease, error) {
	for {
		l, err := try(ctx)
		if !errors.Is(err, backend.ErrHeld) {
			return l, err
		}
		if err := message(ctx, s, signalName(r.Key)); err != nil {
			return nil, s.failed(ctx, err)
		}
	}
}

// message waits for one message.
func message(ctx context.Context, s *store, channel string) error {
	sub := s.client.Subscribe(ctx, channel)
	defer sub.Close()
	select {
	case <-sub.Channel():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func waitForTTL(ctx context.Context, s *store, r backend.Request, try try) (backend.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, max(r.TTL, time.Millisecond))
	defer cancel()
	return wait(ctx, s, r, try)
}
