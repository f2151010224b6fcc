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

// A batchStore is a slowStore that renews many leases in one request, which is answered when renew returns.
type batchStore struct{ *slowStore }

func (s batchStore) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	send := func(ctx context.Context, lives []*kit.Life, ttls []time.Duration) ([]time.Duration, []error) {
		return ttls, slices.Repeat([]error{s.renew(ctx, "")}, len(lives))
	}
	return s.leases.RenewBatch(ctx, renewals, send)
}

// A syncBuffer is a buffer for a log.
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

// silent does not answer a renewal.
func silent(ctx context.Context, _ string) error { return hang(ctx) }

// The log of a store that does not answer names the key, the cause, and for how long the store has been silent.
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

// A caller's own renewal, which also waits for the answer, is not the cause.
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
