package prometheus_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile("rules.yml", false, model.LegacyValidation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	var all []rulefmt.Rule
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// fired names the alerts that Prometheus would have sent, in order.
func (db *database) fired(all []rulefmt.Rule) []string {
	db.t.Helper()
	fired := make(map[string]bool)
	since := make(map[string]time.Time)
	for _, at := range slices.Clone(db.at) {
		pending := make(map[string]time.Time)
		for _, r := range all {
			for _, s := range db.query(r.Expr, at) {
				if r.Record != "" {
					db.add(at, s.F, labels.NewBuilder(s.Metric).Set(model.MetricNameLabel, r.Record).Labels())
					continue
				}
				id := r.Alert + s.Metric.String()
				pending[id] = at
				if begun, ok := since[id]; ok {
					pending[id] = begun
				}
				if at.Sub(pending[id]) >= time.Duration(r.For) && !fired[r.Alert] {
					fired[r.Alert] = true
					db.t.Logf("%s at %v: %v %v", r.Alert, at.Sub(db.at[0]), s.Metric, s.F)
				}
			}
		}
		since = pending
	}
	return slices.Sorted(maps.Keys(fired))
}

const week = 7 * 24 * time.Hour

// Each alert is raised in the run with the failure that it describes, and in no other run.
// Time is simulated, so that a run lasts for a week and an hour.
func TestAlerts(t *testing.T) {
	all := rules(t)
	covered := make(map[string]bool)
	for _, c := range []struct {
		fault string
		fires []string
		lasts time.Duration
		begin func(j *job, l *load, store *faulty) (end func())
	}{
		{"None", nil, 40 * time.Minute, func(*job, *load, *faulty) func() { return func() {} }},
		{"JobOutlivesItsLease", []string{"AnylockLeaseLost"}, 40 * time.Minute, func(j *job, _ *load, _ *faulty) func() {
			l, err := j.locks.Acquire(j.t.Context(), "invoice/1", lock.WithoutRenewal())
			if err != nil {
				j.t.Fatal(err)
			}
			return func() { _ = l.Release(j.t.Context()) }
		}},
		{"StoreAnswersRenewalsSlowly", []string{"AnylockRenewalsLate", "AnylockWaitsGrow"}, 40 * time.Minute,
			func(j *job, _ *load, store *faulty) func() {
				store.slow.Store(int64(slowly))
				return j.hold(many)
			}},
		{"EverySecondRenewalFails", []string{"AnylockRenewalsFail"}, 40 * time.Minute,
			func(_ *job, _ *load, store *faulty) func() {
				store.dropping.Store(true)
				return func() {}
			}},
		{"StoreIsDown", []string{"AnylockLeaseLost", "AnylockStoreUnavailable"}, 40 * time.Minute,
			func(j *job, _ *load, store *faulty) func() {
				end := j.hold(3)
				store.down.Store(true)
				return end
			}},
		{"WorkersHoldForLonger", []string{"AnylockWaitsGrow"}, 40 * time.Minute, func(_ *job, l *load, _ *faulty) func() {
			l.holds.Store(int64(5 * time.Second))
			return func() {}
		}},
		{"LeaseIsForgotten", []string{"AnylockLeaseHeldLong"}, 90 * time.Minute,
			func(j *job, _ *load, _ *faulty) func() { return j.hold(1) }},
	} {
		for _, name := range c.fires {
			covered[name] = true
		}
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			synctest.Test(t, func(t *testing.T) {
				store := &faulty{Backend: memory.New()}
				j := newJob(t, store)
				phase := func(lasts time.Duration, fault func(l *load) (end func())) {
					l := j.begin(5*time.Second, time.Minute)
					end := func() {}
					for at := time.Duration(0); at < lasts; at += 30 * time.Second {
						if at == 15*time.Minute {
							end = fault(l)
						}
						db.scrape(j.metrics)
						time.Sleep(30 * time.Second)
					}
					l.end()
					end()
				}
				begun := time.Now()
				phase(30*time.Minute, func(*load) func() { return func() {} })
				time.Sleep(week - time.Since(begun))
				phase(c.lasts, func(l *load) func() { return c.begin(j, l, store) })
			})
			if got := db.fired(all); !slices.Equal(got, c.fires) {
				t.Errorf("fired %q, want %q", got, c.fires)
			}
		})
	}
	for _, r := range all {
		if r.Alert != "" && !covered[r.Alert] {
			t.Errorf("no run has the fault of %s", r.Alert)
		}
	}
}

// So many leases, and so slow an answer, that renewals begin late and end in time.
const many, slowly = 1200, time.Second

// hold holds n keys until end is called.
func (j *job) hold(n int) (end func()) {
	j.t.Helper()
	var leases []*lock.Lease
	for i := range n {
		l, err := j.locks.Acquire(j.t.Context(), fmt.Sprintf("order/%d", i))
		if err != nil {
			j.t.Fatal(err)
		}
		leases = append(leases, l)
	}
	return func() {
		for _, l := range leases {
			_ = l.Release(j.t.Context()) // some are lost
		}
	}
}
