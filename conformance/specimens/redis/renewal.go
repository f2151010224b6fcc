package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

var renewal = []specimens.Specimen{
	{
		Name:  "renewal-by-set",
		Title: "A renewal by plain SET",
		Story: "The holder renews with SET key owner PX ttl, the same command as for the acquisition without NX. " +
			"If the key has expired, or was lost in a failover, the renewal creates it again, even if another client " +
			"has held the key in between or still holds it. The loss of the lock is never noticed.",
		See:    "redsync's WithSetNXOnExtend, whose own test asserts that an expired lock comes back",
		Right:  "A script extends the key only while it has the owner's value: an expired lock stays expired.",
		Sin:    []string{"renewBySet"},
		Virtue: []string{"prolongScript"},
		Open:   open(func(s *store) { s.prolong = renewBySet }),
		Kills: []specimens.Kill{
			{Check: "EvictedRenewRevivesNothing", Says: "Renew of a lease that the store had dropped: <nil>, want ErrLost"},
			{Check: "EvictedRenewSparesNewHolder", Says: "Renew of a lease that the store had dropped: <nil>, want ErrLost"},
		},
	},
	{
		Name:  "renewal-by-set-xx",
		Title: "A renewal by SET XX",
		Story: "XX sets a key only if it exists, which seems right for a renewal, because it cannot revive an " +
			"expired key. But the existing key may belong to another client. The renewal writes its own owner into " +
			"the key, and the new holder loses its lock without notice.",
		See:    "Redis manual, SET page: XX looks at whether the key exists, not at what it holds",
		Right:  "Compare the owner, and extend, in one script.",
		Sin:    []string{"renewBySetXX"},
		Virtue: []string{"prolongScript"},
		Open:   open(func(s *store) { s.prolong = renewBySetXX }),
		Kills: []specimens.Kill{
			{Check: "EvictedRenewSparesNewHolder", Says: "Renew of a lease that the store had dropped: <nil>, want ErrLost"},
		},
	},
	{
		Name:  "expire-by-anyone",
		Title: "A renewal by EXPIRE alone",
		Story: "A background thread calls EXPIRE on the key repeatedly. EXPIRE does not check the owner. A " +
			"thread that was not stopped, or whose holder has lost the key, keeps another client's lock alive, even " +
			"after that client has died, and reports success to its own holder.",
		See:    "Redis manual, EXPIRE page; Redisson issue 7272, a renewal that goes on after unlock",
		Right:  "Compare the owner, and extend, in one script.",
		Sin:    []string{"renewByExpire"},
		Virtue: []string{"prolongScript"},
		Open:   open(func(s *store) { s.prolong = renewByExpire }),
		Kills: []specimens.Kill{
			{Check: "LateRenewSparesNext", Says: "Inspect returns a TTL"},
			{Check: "EvictedRenewSparesNewHolder", Says: "Renew of a lease that the store had dropped: <nil>, want ErrLost"},
		},
	},
	{
		Name:  "renewal-believed",
		Title: "A lock that counts as held while its renewal is pending",
		Story: "A renewal has its own timeout, counted from its start, and the lock counts as held until the " +
			"renewal has failed. If the server hangs or is cut off, the renewal hangs past the end of the lease. " +
			"Meanwhile the key expires, and another client acquires it: two holders, without a pause and with good " +
			"clocks. Measured with rueidislock: both held the key for one second.",
		See: "rueidislock's script(), bounded by the new deadline; node-redlock without a command timeout is of " +
			"the same kind",
		Right:  "A timer at the current deadline reports the loss, whatever a request does.",
		Sin:    []string{"believer", "believer.Renew", "believer.watch"},
		Virtue: []string{"right"},
		Open:   open(func(s *store) { s.hand = believe }),
		Kills: []specimens.Kill{
			{Check: "PartitionLosesBeforeNext", Says: "Lost is not closed"},
			{Check: "FrozenStoreLosesLease", Says: "Lost is not closed"},
		},
	},
}

func renewBySet(ctx context.Context, s *store, key, owner string, ttl time.Duration) error {
	return s.client.Set(ctx, lockName(key), owner, ttl).Err()
}

func renewBySetXX(ctx context.Context, s *store, key, owner string, ttl time.Duration) error {
	err := s.client.SetArgs(ctx, lockName(key), owner, redis.SetArgs{Mode: "XX", TTL: ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return backend.ErrLost
	}
	return err
}

func renewByExpire(ctx context.Context, s *store, key, _ string, ttl time.Duration) error {
	found, err := s.client.PExpire(ctx, lockName(key), ttl).Result()
	if err == nil && !found {
		return backend.ErrLost
	}
	return err
}

// A believer is held until a renewal has failed.
type believer struct {
	*kit.Life
	s    *store
	lost chan struct{}
	busy chan struct{} // holds a value while a renewal is under way
}

func believe(s *store, l *kit.Life) backend.Lease {
	b := &believer{Life: l, s: s, lost: make(chan struct{}), busy: make(chan struct{}, 1)}
	l.OnLost(func() { s.calls.Go(b.watch) })
	return b
}

func (b *believer) Lost() <-chan struct{} { return b.lost }

// Renew gives the request all the time that requests have.
func (b *believer) Renew(ctx context.Context, ttl time.Duration) error {
	b.busy <- struct{}{}
	defer func() { <-b.busy }()
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	_, err := b.s.RenewLease(ctx, b.Life, ttl)
	return err
}

// watch reports the loss once the renewal under way has ended.
func (b *believer) watch() {
	b.busy <- struct{}{}
	close(b.lost)
}
