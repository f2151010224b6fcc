package otel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = time.Second

// A world is a Locker with a Tracer, and what the Tracer has reported.
type world struct {
	t     *testing.T
	locks *lock.Locker
	meter *metric.ManualReader
	spans *tracetest.SpanRecorder
}

func newWorld(t *testing.T, opts ...otel.Option) *world {
	t.Helper()
	return newWorldOn(t, memory.New(), ttl, opts...)
}

func newWorldOn(t *testing.T, b backend.Backend, ttl time.Duration, opts ...otel.Option) *world {
	t.Helper()
	w := &world{t: t, meter: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	tracer, err := otel.New(append([]otel.Option{
		otel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(w.meter))),
		otel.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(w.spans))),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	if w.locks, err = lock.New(b, lock.WithTracer(tracer), lock.WithTTL(ttl)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.locks.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) acquire(key string, opts ...lock.AcquireOption) *lock.Lease {
	w.t.Helper()
	l, err := w.locks.Acquire(context.Background(), key, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) release(l *lock.Lease) {
	w.t.Helper()
	if err := l.Release(context.Background()); err != nil {
		w.t.Error(err)
	}
}

// value is the sum of the values, or the number of measurements, of an instrument with these attributes at least
// ("name=value").
func (w *world) value(instrument string, with ...string) (n int64) {
	w.t.Helper()
	var data metricdata.ResourceMetrics
	if err := w.meter.Collect(context.Background(), &data); err != nil {
		w.t.Fatal(err)
	}
	fits := func(s attribute.Set) bool {
		text := "," + s.Encoded(attribute.DefaultEncoder()) + ","
		for _, a := range with {
			if !strings.Contains(text, ","+a+",") {
				return false
			}
		}
		return true
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != instrument {
				continue
			}
			if m.Unit == "" || m.Description == "" {
				w.t.Errorf("%s has unit %q, description %q", m.Name, m.Unit, m.Description)
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					if fits(p.Attributes) {
						n += p.Value
					}
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					if fits(p.Attributes) {
						n += int64(p.Count)
					}
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					if fits(p.Attributes) {
						n += int64(p.Value)
					}
				}
			default:
				w.t.Fatalf("%s is a %T", instrument, d)
			}
		}
	}
	return n
}

func (w *world) is(want int64, instrument string, with ...string) {
	w.t.Helper()
	if n := w.value(instrument, with...); n != want {
		w.t.Errorf("%s %v is %d, want %d", instrument, with, n, want)
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.acquire("k")
		w.is(1, "lock.client.lease.count")
		if _, err := w.locks.TryAcquire(context.Background(), "k"); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		again := w.acquireUnder(first, "k")
		w.release(again)
		w.is(1, "lock.client.lease.count")
		time.Sleep(ttl)
		synctest.Wait()
		w.release(first)
		w.is(w.value("lock.client.renewal.duration"), "lock.client.renewal.lateness")
		lost := w.acquire("lost", lock.WithoutRenewal())
		<-lost.Lost()
		synctest.Wait() // the Tracer is called after Lost is closed
		if err := lost.Release(context.Background()); !errors.Is(err, lock.ErrLost) {
			t.Error(err)
		}
		if _, err := w.locks.Acquire(context.Background(), ""); !errors.Is(err, lock.ErrInvalid) {
			t.Error(err)
		}
		w.is(0, "lock.client.lease.count")
		w.is(0, "lock.client.acquire.pending")
		w.is(1, "lock.client.lease.losses", "lock.backend=memory", "error.type=lost")
		w.is(2, "lock.client.lease.hold_time", "lock.backend=memory")
		w.is(1, "lock.client.lease.hold_time", "error.type=lost")
		w.is(2, "lock.client.acquire.duration", "lock.outcome=granted")
		w.is(1, "lock.client.acquire.duration", "lock.outcome=reentered")
		w.is(1, "lock.client.acquire.duration", "lock.outcome=held", "error.type=held")
		w.is(1, "lock.client.acquire.duration", "lock.outcome=error", "error.type=invalid")
		w.is(5, "lock.client.acquire.duration")
	})
}

// A resumed lease is counted until its end.
func TestResumedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, err := w.locks.Acquire(t.Context(), "k", lock.WithOwner("o"), lock.WithoutRenewal())
		if err != nil {
			t.Fatal(err)
		}
		resumed, err := w.locks.Resume(t.Context(), "k", l.Owner())
		if err != nil {
			t.Fatal(err)
		}
		w.is(2, "lock.client.lease.count")
		w.is(1, "lock.client.acquire.duration", "lock.outcome=resumed")
		w.release(resumed)
		w.is(1, "lock.client.lease.count")
		<-l.Lost()
		synctest.Wait() // the Tracer is called next
		w.is(0, "lock.client.lease.count")
		if _, err := w.locks.Resume(t.Context(), "k", "o"); !errors.Is(err, lock.ErrLost) {
			t.Fatal(err)
		}
		w.is(0, "lock.client.acquire.pending")
		w.is(0, "lock.client.lease.count")
	})
}

// An acquisition that ends without a lease has one outcome, which error.type has too, whatever else its error
// matches.
func TestOutcomesAndErrorTypesAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		w := newWorldOn(t, store.Client(), 30*time.Second)
		other, err := store.Client().Acquire(t.Context(),
			backend.Request{Key: "k", Owner: backend.NewOwner(), TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		fails := func(ctx context.Context, want error, opts ...lock.AcquireOption) {
			t.Helper()
			if _, err := w.locks.Acquire(ctx, "k", opts...); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		fails(t.Context(), lock.ErrHeld, lock.WithWait(3*time.Second))
		ended, cancel := context.WithTimeout(t.Context(), time.Second)
		fails(ended, context.DeadlineExceeded) // matches ErrHeld besides
		cancel()
		w.is(2, "lock.client.acquire.duration", "lock.outcome=timeout", "error.type=timeout")
		given, giveUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, giveUp)
		fails(given, context.Canceled)
		w.is(1, "lock.client.acquire.duration", "lock.outcome=canceled", "error.type=canceled")
		fails(t.Context(), lock.ErrHeld, lock.WithWait(0))
		w.is(1, "lock.client.acquire.duration", "lock.outcome=held", "error.type=held")
		if err := other.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := w.locks.Close(); err != nil {
			t.Error(err)
		}
		fails(t.Context(), lock.ErrClosed)
		w.is(1, "lock.client.acquire.duration", "lock.outcome=closed", "error.type=closed")
		w.is(5, "lock.client.acquire.duration")
		w.is(0, "lock.client.acquire.pending")
	})
}

// A lease that nobody releases shows while it is held, by its age.
func TestAgeOfOldestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, memory.New(), time.Hour, otel.WithKey(func(key string) string { return key }))
		w.is(0, "lock.client.lease.age.max")
		stuck := w.acquire("job")
		time.Sleep(1000 * time.Hour)
		short := w.acquire("other")
		time.Sleep(time.Minute)
		w.is(1000*3600+60, "lock.client.lease.age.max", "lock.backend=memory", "lock.key=job")
		w.is(60, "lock.client.lease.age.max", "lock.key=other")
		w.release(w.acquireUnder(stuck, "job"))
		next := make(chan *lock.Lease)
		go func() { next <- w.acquire("job") }()
		time.Sleep(time.Minute)
		w.release(stuck)
		handed := <-next
		w.is(0, "lock.client.lease.age.max", "lock.key=job")
		time.Sleep(5 * time.Second)
		w.is(5, "lock.client.lease.age.max", "lock.key=job")
		w.release(short)
		w.is(0, "lock.client.lease.age.max", "lock.key=other")
		w.release(handed)
		lost := w.acquire("lost", lock.WithoutRenewal())
		<-lost.Lost()
		synctest.Wait()
		w.is(0, "lock.client.lease.age.max")
	})
}

func TestHandoffsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.acquire("k")
		next := make(chan *lock.Lease)
		go func() { next <- w.acquire("k") }()
		synctest.Wait()
		w.is(1, "lock.client.acquire.pending")
		w.release(first)
		w.release(<-next)
		w.is(1, "lock.client.handoffs", "lock.backend=memory")
		w.is(1, "lock.client.acquire.duration", "lock.outcome=handed_on")
		w.is(0, "lock.client.lease.count")
		w.is(w.value("lock.client.acquire.duration"), "lock.client.lease.hold_time")
	})
}

func (w *world) acquireUnder(l *lock.Lease, key string) *lock.Lease {
	w.t.Helper()
	again, err := w.locks.Acquire(l.Context(context.Background()), key, lock.Reentrant())
	if err != nil {
		w.t.Fatal(err)
	}
	return again
}

func TestSpans(t *testing.T) {
	w := newWorld(t)
	l := w.acquire("k")
	if _, err := w.locks.TryAcquire(context.Background(), "k"); !errors.Is(err, lock.ErrHeld) {
		t.Fatal(err)
	}
	secret := "secret" + strings.Repeat("k", 1024)
	if _, err := w.locks.Acquire(context.Background(), secret); err == nil {
		t.Fatal("a key that is too long")
	}
	w.release(l)
	ended := w.spans.Ended()
	if len(ended) != 3 || len(w.spans.Started()) != 3 {
		t.Fatalf("%d spans began, %d ended, want 3", len(w.spans.Started()), len(ended))
	}
	for i, want := range []codes.Code{codes.Unset, codes.Unset, codes.Error} {
		if s := ended[i].Status(); s.Code != want || strings.Contains(s.Description, "secret") {
			t.Errorf("span %d: %v", i, s)
		}
		for _, a := range ended[i].Attributes() {
			if a.Key == "lock.key" {
				t.Errorf("span %d has the key without WithKey: %v", i, a)
			}
		}
	}
	attributes := attribute.NewSet(ended[0].Attributes()...)
	for _, want := range []attribute.KeyValue{
		attribute.String("lock.backend", "memory"), attribute.String("lock.outcome", "granted"),
		attribute.Bool("lock.wait", true),
		attribute.Float64("lock.ttl", ttl.Seconds()), attribute.String("lock.owner", l.Owner()),
		attribute.Int64("lock.token", int64(l.Token())),
	} {
		if got, ok := attributes.Value(want.Key); !ok || got != want.Value {
			t.Errorf("%s is %v, want %v", want.Key, got, want.Value)
		}
	}
}

func TestKeyIsMapped(t *testing.T) {
	w := newWorld(t, otel.WithKey(func(key string) string {
		name, _, _ := strings.Cut(key, "/")
		return name
	}))
	w.release(w.acquire("invoice/42"))
	w.is(1, "lock.client.acquire.duration", "lock.key=invoice")
	w.is(1, "lock.client.lease.hold_time", "lock.key=invoice")
	if got := attribute.NewSet(w.spans.Ended()[0].Attributes()...); !got.HasValue("lock.key") {
		t.Error("the span lacks the key")
	}
}

// Attributes are UTF-8, whatever bytes a key and an owner have.
func TestAttributesAreUTF8(t *testing.T) {
	w := newWorld(t, otel.WithKey(func(key string) string { return key }))
	w.release(w.acquire("k\xff", lock.WithOwner("o\xff")))
	w.is(1, "lock.client.acquire.duration", "lock.key=k\ufffd")
	w.is(1, "lock.client.lease.hold_time", "lock.key=k\ufffd")
	for _, a := range w.spans.Ended()[0].Attributes() {
		if !utf8.ValidString(a.Value.AsString()) {
			t.Errorf("%s: %q", a.Key, a.Value.AsString())
		}
	}
}

// A nil option, or a nil provider, changes nothing.
func TestNilOption(t *testing.T) {
	w := newWorld(t, nil, otel.WithKey(func(string) string { return "name" }), otel.WithMeterProvider(nil),
		otel.WithTracerProvider(nil))
	if err := w.acquire("k").Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// Only what belongs to shared leases has the attribute lock.shared.
func TestSharedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, otel.WithKey(strings.ToUpper))
		w.release(w.acquire("k"))
		one, two := w.acquire("k", lock.Shared()), w.acquire("k", lock.Shared())
		if got := w.value("lock.client.lease.count", "lock.shared=true"); got != 2 {
			t.Errorf("%d shared leases", got)
		}
		time.Sleep(ttl)
		w.release(one)
		w.release(two)
		for instrument, want := range map[string][2]int64{ // shared, and all
			"lock.client.acquire.duration": {2, 3},
			"lock.client.lease.hold_time":  {2, 3},
			"lock.client.lease.count":      {0, 0},
		} {
			if got := [2]int64{w.value(instrument, "lock.shared=true"), w.value(instrument)}; got != want {
				t.Errorf("%s: %d, want %d", instrument, got, want)
			}
		}
		granted := []string{"lock.backend=memory", "lock.key=K", "lock.outcome=granted", "lock.shared=true"}
		if got := w.value("lock.client.acquire.duration", granted...); got != 2 {
			t.Errorf("%d acquisitions with all attributes", got)
		}
		if got := w.value("lock.client.renewal.duration", "lock.shared=true"); got < 2 {
			t.Errorf("%d renewals of shared leases", got)
		}
	})
}
