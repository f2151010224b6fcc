package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/driver"
)

// URL returns the store that package lock opens for rawURL. The program must have imported the store's package. URL
// connects to the store once, so that a wrong address is reported before anything is measured.
func URL(ctx context.Context, rawURL string) (Store, error) {
	d, err := driver.Lookup(rawURL)
	if err != nil {
		return Store{}, err
	}
	u, err := driver.SplitURL(rawURL)
	if err != nil {
		return Store{}, err
	}
	s := Store{
		Name:  d.Name,
		About: fmt.Sprintf("anylock %s, %s", version("github.com/anylock/lock"), driver.Redact(rawURL)),
		Child: rawURL,
		Open: func(ctx context.Context, ttl time.Duration) (Client, error) {
			l, err := lock.Open(ctx, rawURL, lock.WithTTL(ttl))
			if err != nil {
				return nil, err
			}
			return lockerClient{l}, nil
		},
	}
	l, err := lock.Open(ctx, rawURL)
	if err != nil {
		return Store{}, err
	}
	g := l.Guarantees()
	s.MinTTL = g.MinTTL
	if g.Reach == lock.ReachProcess {
		s.Child = "" // no other process can reach it
	}
	if g.MaxLeases > 0 { // half of them may wait, and one may be needed for inspection
		s.MaxLeases = g.MaxLeases/2 - 2
	}
	s.Requests = requestCounter(ctx, rawURL, u)
	if server := serverOf(ctx, rawURL, u); server != "" {
		s.About += ", " + server
	}
	return s, l.Close()
}

// version returns the version of a module in this program.
func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" && m.Version != "(devel)" {
				return m.Version
			}
		}
	}
	return "(devel)"
}

// A lockerClient is a Client that uses a Locker.
type lockerClient struct{ *lock.Locker }

func (c lockerClient) Acquire(ctx context.Context, key string) (Lease, error) {
	return leaseOrNil(c.Locker.Acquire(ctx, key))
}

// AcquireShared implements SharedClient.
func (c lockerClient) AcquireShared(ctx context.Context, key string) (Lease, error) {
	l, err := c.Locker.Acquire(ctx, key, lock.Shared())
	if errors.Is(err, lock.ErrUnsupported) {
		err = ErrUnsupported
	}
	return leaseOrNil(l, err)
}

func (c lockerClient) Try(ctx context.Context, key string) (Lease, error) {
	l, err := c.Locker.TryAcquire(ctx, key)
	if errors.Is(err, lock.ErrHeld) {
		return nil, ErrBusy
	}
	return leaseOrNil(l, err)
}

func leaseOrNil(l *lock.Lease, err error) (Lease, error) {
	if err != nil {
		return nil, err // not l: an interface that holds a nil pointer is not nil
	}
	return l, nil
}
