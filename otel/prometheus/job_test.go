package prometheus_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/otlptranslator"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/otel"
)

// A job is a process that uses locks and is scraped.
type job struct {
	t       *testing.T
	locks   *lock.Locker
	metrics *prometheus.Registry
}

func newJob(t *testing.T, b backend.Backend, opts ...lock.Option) *job {
	t.Helper()
	j := &job{t: t, metrics: prometheus.NewRegistry()}
	reader, err := exporter.New(exporter.WithRegisterer(j.metrics),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		t.Fatal(err)
	}
	tracer, err := otel.New(otel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		otel.WithKey(func(key string) string {
			kind, _, _ := strings.Cut(key, "/")
			return kind
		}))
	if err != nil {
		t.Fatal(err)
	}
	if j.locks, err = lock.New(b, append([]lock.Option{lock.WithTracer(tracer)}, opts...)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.locks.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// A load is what a process does with locks: workers that want the same key now and then, and one with longer jobs.
type load struct {
	holds atomic.Int64 // for how long the workers hold, a time.Duration
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// begin starts a load. every is how often a worker wants the key; a long job lasts for half of long, and begins each
// long.
func (j *job) begin(every, long time.Duration) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{stop: stop}
	l.holds.Store(int64(every / 50))
	sleep := func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	work := func(key string, hold func() time.Duration, pause time.Duration) {
		for ctx.Err() == nil {
			_ = j.locks.Do(ctx, key, func(ctx context.Context, _ *lock.Lease) error { // outages are part of the load
				sleep(hold())
				return nil
			})
			sleep(pause)
		}
	}
	for range 3 {
		l.done.Go(func() {
			work("stock/1", func() time.Duration { return time.Duration(l.holds.Load()) }, every)
		})
	}
	l.done.Go(func() { work("report/1", func() time.Duration { return long / 2 }, long/2) })
	return l
}

func (l *load) end() {
	l.stop()
	l.done.Wait()
}

// A faulty store does not answer, or answers renewals slowly. It renews one lease at a time.
type faulty struct {
	backend.Backend
	down, dropping atomic.Bool
	slow           atomic.Int64 // a time.Duration
}

func (f *faulty) fault() error { return fmt.Errorf("%w: out of order", backend.ErrUnavailable) }

func (f *faulty) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if f.down.Load() {
		return nil, f.fault()
	}
	l, err := f.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return &faultyLease{Lease: l, store: f}, nil
}

type faultyLease struct {
	backend.Lease
	store *faulty
	n     atomic.Int64
}

func (l *faultyLease) Renew(ctx context.Context, ttl time.Duration) error {
	if kit.Sleep(ctx, time.Duration(l.store.slow.Load())) != nil || l.store.down.Load() || l.store.dropping.Load() &&
		l.n.Add(1)%2 == 1 {
		return l.store.fault()
	}
	return l.Lease.Renew(ctx, ttl)
}
