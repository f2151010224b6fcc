package lock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A batchStore is a slowStore that renews a batch of leases by one call of renew.
type batchStore struct{ *slowStore }

func (s batchStore) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	send := func(ctx context.Context, lives []*kit.Life, ttls []time.Duration) ([]time.Duration, []error) {
		return ttls, slices.Repeat([]error{s.renew(ctx, "")}, len(lives))
	}
	return s.leases.RenewBatch(ctx, renewals, send)
}

// A syncBuffer is a buffer for a log. It is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// lastLine returns the last line that contains text.
func (b *syncBuffer) lastLine(text string) (last string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.b.String()) {
		if strings.Contains(line, text) {
			last = line
		}
	}
	return last
}

// silent hangs, like a renewal that gets no reply.
func silent(ctx context.Context, _ string) error { return hang(ctx) }

// If the store answers no renewals, the log names the key, the cause, and how long the store has been silent. The
// Tracer gets ErrUnavailable.
func TestSilentStoreIsTheCause(t *testing.T) {
	for name, store := range map[string]func() backend.Backend{
		"one by one": func() backend.Backend { return newSlowStore(silent) },
		"batches":    func() backend.Backend { return batchStore{newSlowStore(silent)} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log syncBuffer
				var traced recorder
				l := locker(t, store(), lock.WithTTL(9*time.Second), lock.WithTracer(&traced),
					lock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				other, lease := acquire(t, l, "invoice/42"), acquire(t, l, "invoice/43")
				<-lease.Lost()
				<-other.Lost()
				synctest.Wait()
				last := log.lastLine("renewal:")
				// The first renewal begins when almost a third of the TTL has passed.
				if !regexp.MustCompile(`key=invoice/4.*store unavailable: no answer for (5\.9\d*|6(\.\d+)?)s`).MatchString(last) {
					t.Errorf("the last line is %q", last)
				}
				if strings.Contains(last, "context") {
					t.Errorf("the last line %q speaks of a context", last)
				}
				traced.mu.Lock()
				defer traced.mu.Unlock()
				for _, e := range traced.renewed {
					if !errors.Is(e.Err, lock.ErrUnavailable) && !errors.Is(e.Err, lock.ErrLost) {
						t.Errorf("traced as %v, want ErrUnavailable", e.Err)
					}
				}
			})
		})
	}
}

// The log names the silent store as the cause even if a Renew of the caller also waits for a reply.
func TestSilentStoreIsTheCauseBesideRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuffer
		l := locker(t, batchStore{newSlowStore(silent)}, lock.WithTTL(9*time.Second),
			lock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		lease := acquire(t, l, "k")
		for lease.Err() == nil {
			_ = lease.Renew(t.Context(), 9*time.Second)
		}
		synctest.Wait()
		if last := log.lastLine("renewal:"); !strings.Contains(last, "no answer for") || !strings.Contains(last, "key=k") {
			t.Errorf("the last line is %q", last)
		}
	})
}
