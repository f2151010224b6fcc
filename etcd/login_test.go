package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// tokenTTL is the lifetime of a token in these tests, whether it is used or not.
const tokenTTL = 2 * time.Second

// After its JWT has expired, a client can still renew, acquire and wait. Servers before 3.5 reject even a log-in that
// carries the old token.
func TestTokenExpires(t *testing.T) {
	t.Parallel()
	s := servers.EtcdJWT(t, "worker", "secret", "locks/", tokenTTL)
	b := opened(t, "etcd://worker:secret@"+s.Addr+"/locks")
	l := acquire(t, b, req("k", 20*time.Second))
	done := queueUp(t, b, waiting("k", 20*time.Second), 1)
	for range 3 {
		time.Sleep(tokenTTL + time.Second) // sleeps: the token must expire
		if err := l.Renew(t.Context(), 20*time.Second); err != nil {
			t.Errorf("renewal after the token has expired: %v", err)
		}
		o, err := b.Acquire(t.Context(), req("other", 20*time.Second))
		if err != nil {
			t.Errorf("acquire after the token has expired: %v", err)
			continue
		}
		release(t, o)
	}
	release(t, l)
	release(t, granted(t, done, soon).Lease)
}

// While the token expires again and again, each of many callers keeps a short lease and acquires others. A log-in costs
// as much as by default, so log-ins of all callers at once would take the server seconds.
func TestExpiringTokenDelaysNobody(t *testing.T) {
	t.Parallel()
	const callers, ttl = 64, 5 * time.Second
	expiries := 10
	if testing.Short() {
		expiries = 2
	}
	s := servers.EtcdJWT(t, "worker", "secret", "locks/", tokenTTL, "--bcrypt-cost", "10")
	b := opened(t, "etcd://worker:secret@"+s.Addr+"/locks")
	keepAllBusy(t, b, callers, ttl, time.Duration(expiries)*tokenTTL)
}

// An application's own client stays logged in, too. Without the Backend, a server before 3.5 would lock it out.
func TestTokenOfOwnClientIsReplacedAhead(t *testing.T) {
	t.Parallel()
	s := servers.EtcdJWT(t, "worker", "secret", "locks/", tokenTTL)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Username: "worker", Password: "secret",
		Logger: zap.NewNop(), DialTimeout: soon})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keepAllBusy(t, onOwnClient(t, c, &Options{Namespace: "locks"}), 8, 5*time.Second, 2*tokenTTL)
}

// keepAllBusy fails the test if requests of many callers fail in each of three tries. A machine that stands still fails
// a try.
func keepAllBusy(t *testing.T, b *Backend, callers int, ttl, d time.Duration) {
	t.Helper()
	storetest.ThreeTries(t, func() error {
		end := time.Now().Add(d)
		errs := make([]error, callers)
		var running sync.WaitGroup
		for i := range callers {
			running.Go(func() { errs[i] = keepBusy(t.Context(), b, ttl, end) })
		}
		running.Wait()
		return errors.Join(errs...)
	})
}

// keepBusy keeps one lease until end, and acquires and releases others in the meantime. It returns the first error.
func keepBusy(ctx context.Context, b *Backend, ttl time.Duration, end time.Time) error {
	kept, err := b.Acquire(ctx, waiting(backend.NewOwner(), ttl))
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	renewed := time.Now()
	for time.Now().Before(end) {
		l, err := b.Acquire(ctx, req(backend.NewOwner(), ttl))
		if err == nil {
			err = l.Release(ctx)
		}
		if err != nil {
			return fmt.Errorf("acquire and release: %w", err)
		}
		if time.Since(renewed) > ttl/4 {
			renewed = time.Now()
			if err := kept.Renew(ctx, ttl); err != nil {
				return fmt.Errorf("renewal: %w", err)
			}
		}
		time.Sleep(400 * time.Millisecond) // sleeps: the pace of the load
	}
	if err := kept.Release(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}
