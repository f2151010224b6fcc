// Package otel reports the work of a Locker to OpenTelemetry: a span for each acquisition, and metrics.
//
//	tracer, err := otel.New()
//	locks, err := lock.Open(ctx, url, lock.WithTracer(tracer))
//
// The instruments are named after OpenTelemetry's conventions for database clients (connection pools above all), with
// lock.client in place of db.client. Times are in seconds. docs/observe.md explains each of them, and what to alert on.
//
// Every measurement and span has the attribute lock.backend, the store's name as in errors ("redis"). Those of shared
// leases also have lock.shared with the value true. A key becomes an attribute only through WithKey. Otherwise a key
// per order, for example, would create as many time series as there are orders.
package otel

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/anylock/lock"
)

// scope is the name of the instruments' scope.
const scope = "github.com/anylock/lock/otel"

const (
	backendKey = attribute.Key("lock.backend")
	outcomeKey = attribute.Key("lock.outcome") // of an acquisition, a lock.Outcome
	keyKey     = attribute.Key("lock.key")     // the result of WithKey's function
	sharedKey  = attribute.Key("lock.shared")  // true for shared leases; exclusive ones do not have it
	ownerKey   = attribute.Key("lock.owner")   // of spans only
	tokenKey   = attribute.Key("lock.token")   // of spans only
	waitKey    = attribute.Key("lock.wait")    // of spans only: false for TryAcquire
	ttlKey     = attribute.Key("lock.ttl")     // of spans only, in seconds
	errorKey   = attribute.Key("error.type")
)

// A Tracer implements lock.Tracer, lock.RenewalTracer and lock.LeaseTracer. It may serve any number of Lockers; see
// [New].
type Tracer struct {
	tracer trace.Tracer
	key    func(string) string

	waits    metric.Float64Histogram
	pending  metric.Int64UpDownCounter
	holds    metric.Float64Histogram
	leases   metric.Int64UpDownCounter
	losses   metric.Int64Counter
	handoffs metric.Int64Counter
	renewals metric.Float64Histogram
	lateness metric.Float64Histogram
	live     live
}

var (
	_ lock.Tracer        = (*Tracer)(nil)
	_ lock.RenewalTracer = (*Tracer)(nil)
	_ lock.LeaseTracer   = (*Tracer)(nil)
)

// An Option configures a Tracer. A nil Option has no effect.
type Option func(*settings)

type settings struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	key     func(string) string
}

// WithMeterProvider replaces the global meter provider, unless p is nil.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(s *settings) {
		if p != nil {
			s.meters = p
		}
	}
}

// WithTracerProvider replaces the global tracer provider, unless p is nil.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(s *settings) {
		if p != nil {
			s.tracers = p
		}
	}
}

// WithKey adds the attribute lock.key, whose value is the result of name for the key, unless the result is empty. name
// should map many keys to a few names: "invoice/42" to "invoice". Bytes that are not UTF-8 are replaced.
func WithKey(name func(key string) string) Option {
	return func(s *settings) {
		if name != nil {
			s.key = name
		}
	}
}

// New creates the instruments. Use one Tracer for all Lockers of a meter provider. OpenTelemetry ignores the callback
// of a second Tracer, so its leases would be missing in lock.client.lease.age.max.
func New(opts ...Option) (*Tracer, error) {
	s := settings{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(),
		key: func(string) string { return "" }}
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	m := s.meters.Meter(scope)
	t := &Tracer{tracer: s.tracers.Tracer(scope), key: s.key,
		live: live{leases: make(map[leaseKey]held), seen: make(map[attribute.Distinct]bool)}}
	// The bounds reach from the latency of an in-memory store to the patience of people. One is a tenth of the usual TTL,
	// 3 s.
	bounds := metric.WithExplicitBucketBoundaries(.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 60, 300, 1800)
	var errs [9]error
	t.waits, errs[0] = m.Float64Histogram("lock.client.acquire.duration", bounds, metric.WithUnit("s"),
		metric.WithDescription("Time from the start of an acquisition to its end, granted or not."))
	t.pending, errs[1] = m.Int64UpDownCounter("lock.client.acquire.pending", metric.WithUnit("{acquisition}"),
		metric.WithDescription("Acquisitions under way."))
	t.holds, errs[2] = m.Float64Histogram("lock.client.lease.hold_time", bounds, metric.WithUnit("s"),
		metric.WithDescription("Time from the grant of a lease to its release or loss."))
	t.leases, errs[3] = m.Int64UpDownCounter("lock.client.lease.count", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases held at present."))
	t.losses, errs[4] = m.Int64Counter("lock.client.lease.losses", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases that ended without being released."))
	t.handoffs, errs[5] = m.Int64Counter("lock.client.handoffs", metric.WithUnit("{handoff}"),
		metric.WithDescription("Leases that the holder before passed on inside the process."))
	t.renewals, errs[6] = m.Float64Histogram("lock.client.renewal.duration", bounds, metric.WithUnit("s"),
		metric.WithDescription("Time that the request of an automatic renewal took."))
	t.lateness, errs[7] = m.Float64Histogram("lock.client.renewal.lateness", bounds, metric.WithUnit("s"),
		metric.WithDescription("Time from when an automatic renewal was due to when it began."))
	_, errs[8] = m.Float64ObservableGauge("lock.client.lease.age.max", metric.WithUnit("s"),
		metric.WithFloat64Callback(t.live.observe),
		metric.WithDescription("Age of the oldest lease that is held at present."))
	return t, errors.Join(errs[:]...)
}

// attributes returns the attributes that all measurements of a key and a mode have.
func (t *Tracer) attributes(backend, key string, shared bool) []attribute.KeyValue {
	all := []attribute.KeyValue{backendKey.String(backend)}
	if shared {
		all = append(all, sharedKey.Bool(true))
	}
	if name := t.key(key); name != "" {
		all = append(all, keyKey.String(valid(name)))
	}
	return slices.Clip(all) // callers append to the result more than once
}

// valid returns s with U+FFFD in place of bytes that are not UTF-8. Exporters drop everything that they send together
// with such bytes, and a key or an owner may have any bytes.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func set(all []attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// errorType returns the class of an error of package lock.
func errorType(err error) string {
	for _, class := range []struct {
		err  error
		name string
	}{
		{lock.ErrLost, "lost"},
		{lock.ErrClosed, "closed"},
		{lock.ErrDeadlock, "deadlock"},
		{lock.ErrInvalid, "invalid"},
		{lock.ErrUnsupported, "unsupported"},
		{context.Canceled, "canceled"},
		{context.DeadlineExceeded, "timeout"},
		{lock.ErrHeld, "held"},
		{lock.ErrUnavailable, "unavailable"},
	} {
		if errors.Is(err, class.err) {
			return class.name
		}
	}
	return "_OTHER" // as the conventions require
}

// withError adds the class of err, unless err is nil.
func withError(all []attribute.KeyValue, err error) []attribute.KeyValue {
	if err == nil {
		return all
	}
	return append(all, errorKey.String(errorType(err)))
}

// TraceAcquireStart implements lock.Tracer.
func (t *Tracer) TraceAcquireStart(ctx context.Context, s lock.AcquireStart) context.Context {
	all := t.attributes(s.Backend, s.Key, s.Shared)
	t.pending.Add(ctx, 1, set(all))
	ctx, _ = t.tracer.Start(ctx, "lock acquire", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(append(all, waitKey.Bool(s.Wait), ttlKey.Float64(s.TTL.Seconds()))...))
	return ctx
}

// TraceAcquireEnd implements lock.Tracer.
func (t *Tracer) TraceAcquireEnd(ctx context.Context, e lock.AcquireEnd) {
	all := t.attributes(e.Backend, e.Key, e.Shared)
	t.pending.Add(ctx, -1, set(all))
	switch e.Outcome {
	case lock.OutcomeHandedOn:
		t.handoffs.Add(ctx, 1, set(all))
		fallthrough
	case lock.OutcomeGranted, lock.OutcomeResumed:
		t.leases.Add(ctx, 1, set(all))
		// Start the counter of losses at 0: a series that begins with its first loss shows no increase.
		if t.live.begin(e.Owner, e.Token, all) {
			t.losses.Add(ctx, 0, set(append(all, errorKey.String(errorType(lock.ErrLost)))))
		}
	}
	ended := append(all, outcomeKey.String(string(e.Outcome)))
	switch {
	case e.Outcome == lock.OutcomeError:
		ended = withError(ended, e.Err)
	case e.Err != nil:
		ended = append(ended, errorKey.String(string(e.Outcome))) // the error may match several classes
	}
	t.waits.Record(ctx, e.Waited.Seconds(), set(ended))
	span := trace.SpanFromContext(ctx)
	if e.Owner != "" {
		ended = append(ended, ownerKey.String(valid(e.Owner)), tokenKey.Int64(int64(e.Token)))
	}
	span.SetAttributes(ended...)
	if e.Outcome == lock.OutcomeError { // a busy key or a cancelled call is not an error
		span.SetStatus(codes.Error, errorType(e.Err)) // the text of the error contains the key
	}
	span.End()
}

// TraceRenewal implements lock.RenewalTracer.
func (t *Tracer) TraceRenewal(r lock.RenewalEnd) {
	all := withError(t.attributes(r.Backend, r.Key, r.Shared), r.Err)
	t.renewals.Record(context.Background(), r.Took.Seconds(), set(all))
	t.lateness.Record(context.Background(), r.Late.Seconds(), set(all))
}

// TraceLeaseEnd implements lock.LeaseTracer.
func (t *Tracer) TraceLeaseEnd(ctx context.Context, e lock.LeaseEnd) {
	all := t.attributes(e.Backend, e.Key, e.Shared)
	t.leases.Add(ctx, -1, set(all))
	t.live.end(e.Owner, e.Token)
	ended := withError(all, e.Err)
	if e.Lost {
		t.losses.Add(ctx, 1, set(ended))
	}
	t.holds.Record(ctx, max(e.Held, time.Duration(0)).Seconds(), set(ended))
}
