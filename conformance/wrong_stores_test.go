package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance"
)

// A wrongStore is a client of the reference store with one fault that affects nearly every check.
type wrongStore struct {
	*client
	acquire func(ctx context.Context, c *client, r backend.Request) (backend.Lease, error)
	inspect func(ctx context.Context)
	close   func() error
}

func (w *wrongStore) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return w.acquire(ctx, w.client, r)
}

func (w *wrongStore) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if w.inspect != nil {
		w.inspect(ctx)
	}
	return w.client.Inspect(ctx, key)
}

func (w *wrongStore) Close() error {
	if w.close != nil {
		return w.close()
	}
	return w.client.Close()
}

// A wrongLease is a lease of a wrongStore.
type wrongLease struct {
	backend.Lease
	over  bool          // the lease has already ended when it is granted
	twice bool          // OnLost calls each callback twice
	after time.Duration // delay of each reply
}

func (l wrongLease) Deadline() time.Time {
	if l.over {
		return time.Now().Add(-time.Millisecond)
	}
	return l.Lease.Deadline()
}

func (l wrongLease) Lost() <-chan struct{} {
	if !l.over {
		return l.Lease.Lost()
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

func (l wrongLease) OnLost(f func()) {
	l.Lease.(backend.LossNotifier).OnLost(func() {
		f()
		if l.twice {
			f()
		}
	})
}

func (l wrongLease) Renew(ctx context.Context, ttl time.Duration) error {
	time.Sleep(l.after) // sleeps: the reply is late
	if l.over {
		return backend.ErrLost
	}
	return l.Lease.Renew(ctx, ttl)
}

func (l wrongLease) Release(ctx context.Context) error {
	time.Sleep(l.after) // sleeps: the reply is late
	return l.Lease.Release(ctx)
}

func (w *wrongStore) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	renewals = slices.Clone(renewals)
	for i, r := range renewals {
		if l, ok := r.Lease.(wrongLease); ok {
			time.Sleep(l.after) // sleeps: the reply is late
			renewals[i].Lease = l.Lease
		}
	}
	return w.client.RenewBatch(ctx, renewals)
}

// wraps acquires a lease from c, and returns l around that lease.
func wraps(ctx context.Context, c *client, r backend.Request, l wrongLease) (backend.Lease, error) {
	lease, err := c.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	l.Lease = lease
	return l, nil
}

// wrongStores are stores on which many checks fail or hang, by their fault.
var wrongStores = map[string]struct {
	wrong func(c *client) *wrongStore
	says  string // the text that a failure, or the suite's error, must contain
	long  bool   // the suite computes for seconds; skipped with the race detector
}{
	"every call hangs": {func(c *client) *wrongStore {
		return &wrongStore{client: c, acquire: func(context.Context, *client, backend.Request) (backend.Lease, error) {
			<-c.server.stop
			return nil, backend.ErrClosed
		}, inspect: func(context.Context) { <-c.server.stop }, close: func() error { <-c.server.stop; return nil }}
	}, "rule 4: ", false},
	"every call hangs after a while": {func(c *client) *wrongStore {
		hangs := func() {
			if c.server.calls.Add(1) > 200 {
				<-c.server.stop
			}
		}
		return &wrongStore{client: c, acquire: func(ctx context.Context, c *client, r backend.Request) (backend.Lease,
			error) {
			hangs()
			return c.Acquire(ctx, r)
		}, inspect: func(context.Context) { hangs() }}
	}, "goroutines of this check", false},
	"waiters park, whatever their context": {func(c *client) *wrongStore {
		return &wrongStore{client: c, acquire: func(ctx context.Context, c *client, r backend.Request) (backend.Lease,
			error) {
			if r.Wait {
				<-c.server.stop
			}
			return c.Acquire(ctx, r)
		}}
	}, "waiter", false}, // the scheduler decides which checks of waiters fail first
	"waiters park until their context ends": {func(c *client) *wrongStore {
		return &wrongStore{client: c, acquire: func(ctx context.Context, c *client, r backend.Request) (backend.Lease,
			error) {
			l, err := c.Acquire(ctx, backend.Request{Key: r.Key, Owner: r.Owner, TTL: r.TTL})
			if r.Wait && err != nil {
				<-ctx.Done()
				return nil, kit.ContextError(ctx, err)
			}
			return l, err
		}}
	}, "rule 9: ", true},
	"every answer is late": {func(c *client) *wrongStore {
		const late = 3 * time.Second
		return &wrongStore{client: c, acquire: func(ctx context.Context, c *client, r backend.Request) (backend.Lease,
			error) {
			time.Sleep(late) // sleeps: the reply is late
			return wraps(ctx, c, r, wrongLease{after: late})
		}, inspect: func(context.Context) {
			time.Sleep(late) // sleeps: the reply is late
		}}
	}, "", false},
	"leases are over at once": {func(c *client) *wrongStore {
		return &wrongStore{client: c, acquire: func(ctx context.Context, c *client, r backend.Request) (backend.Lease,
			error) {
			return wraps(ctx, c, r, wrongLease{over: true})
		}}
	}, "the same was seen in each of", true},
	"every call panics": {func(c *client) *wrongStore {
		return &wrongStore{client: c, acquire: func(context.Context, *client, backend.Request) (backend.Lease, error) {
			panic("a bug of the store")
		}}
	}, "panic: a bug of the store", false},
	"OnLost calls back twice": {func(c *client) *wrongStore {
		return &wrongStore{client: c, acquire: func(ctx context.Context, c *client, r backend.Request) (backend.Lease,
			error) {
			return wraps(ctx, c, r, wrongLease{twice: true})
		}}
	}, "called a function 2 times", true},
}

// TestWrongStoresEndSoon runs the suite on stores with a fault that affects nearly every check. The suite ends within
// two minutes, and its failures report what the checks saw. The limit applies only once a check has failed. If every
// reply is late, the first check fails only at its time limit, a minute after it began: then the suite may take four
// minutes.
func TestWrongStoresEndSoon(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Minute
	for what, test := range wrongStores {
		t.Run(what, func(t *testing.T) {
			most := most
			if what == "every answer is late" {
				most *= 2
			}
			if test.long && raceDetector {
				t.Skip("takes long with the race detector")
			}
			synctest.Test(t, func(t *testing.T) {
				s := newServer("")
				defer func() {
					close(s.stop)
					time.Sleep(time.Hour) // until abandoned goroutines have ended
				}()
				whole := s.harness()
				h := conformance.Harness{
					Open:  func(context.Context) (backend.Backend, error) { return test.wrong(newClient(s)), nil },
					Evict: whole.Evict, Restart: whole.Restart, RestartEmpty: whole.RestartEmpty, StepClock: whole.StepClock,
				}
				begun := time.Now()
				results, err := conformance.Execute(t.Context(), h, conformance.Options{Short: true})
				took, n := time.Since(begun), make(map[conformance.Status]int)
				said := fmt.Sprint(err)
				for _, r := range results {
					n[r.Status]++
					if r.Status == conformance.Fail {
						if r.Broken == "" {
							t.Errorf("%s fails without a rule: %s", r.Name, r.Output)
						}
						said += "\n" + r.Name + ": " + r.Broken + ": " + r.Output
					}
				}
				t.Logf("%v: %v, error %v", took, n, err)
				switch {
				case took > most:
					t.Errorf("took %v, want at most %v", took, most)
				case err == nil && n[conformance.Fail] == 0:
					t.Errorf("nothing fails: %v", n)
				case !strings.Contains(said, test.says) || strings.Contains(said, "the machine"):
					t.Errorf("no %q, or the machine is blamed, in\n%s", test.says, said)
				}
			})
		})
	}
}
