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
		Story: "A release pushes a signal to a list, and waiters block in BLPOP: they need not poll, and each " +
			"release wakes one waiter. But a dead holder pushes nothing. Its key expires, and the waiters keep " +
			"waiting for a free key until another client acquires and releases it. If the list alone passes on " +
			"tokens, the failure is permanent: a holder that dies takes the token with it.",
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
		Story: "A refused client subscribes to the key's channel and waits for the message of the release. It " +
			"misses a release between the refusal and the subscription, and every message while it is disconnected. " +
			"An expiry sends no message. In each case the waiter waits for ever. rueidislock has no timer either: in " +
			"15 of 40 measured rounds waiters kept waiting for an absent key.",
		See: "Redisson issue 1763, unlock before subscribe; rueidis issue 653, waiting on a free lock",
		Right: "Subscribe first and check again, and let a timer back the messages. Polling, as in the twin, " +
			"needs no message.",
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
		Story: "The caller did not limit the wait, so the requested TTL limits it. That is the wrong number: for " +
			"a lock of two seconds, the client gives up after waiting for two seconds. The caller gets “busy”, or the " +
			"error of a context that it did not create.",
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
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
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
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
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
