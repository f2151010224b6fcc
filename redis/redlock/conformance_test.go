package redlock

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/anylock/lock/redis/internal/exchange"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/redistest"
)

// outage is longer than a round waits for nodes that it needs.
const outage = exchange.DefaultTimeout + time.Second

// longTTL permits TTLs that outlast the suite's longest check on a busy machine.
const longTTL = paramMaxTTL + "=10m"

func TestConformance3(t *testing.T) {
	conform(t, storetest.Main, 3, func(t *testing.T) *fleet { return startFleet(t, 3, redistest.Durable...) })
}

func TestConformance5(t *testing.T) {
	storetest.Long(t, "five servers")
	conform(t, storetest.Core("members"), 5, func(t *testing.T) *fleet { return startFleet(t, 5, redistest.Durable...) })
}

// Each node of the fleet runs a different release.
func TestConformanceVersions(t *testing.T) {
	storetest.Long(t, "other releases of Redis")
	conform(t, storetest.Core(), len(servers.RedisVersions), func(t *testing.T) *fleet {
		f := &fleet{t: t}
		for _, name := range servers.RedisVersions {
			f.nodes = append(f.nodes, redistest.Version(t, name, redistest.Durable...))
		}
		return f
	})
}

func conform(t *testing.T, run storetest.Suite, size int, start func(t *testing.T) *fleet) {
	t.Parallel()
	run(t, func(t *testing.T) conformance.Harness {
		f := start(t)
		f.bootstrap()
		each := func(do func(i int)) {
			for i := range f.nodes {
				do(i)
			}
		}
		h := conformance.Harness{
			Open:   func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, f.url(longTTL)) },
			Evict:  f.evict,
			Freeze: func() { each(func(i int) { f.nodes[i].Freeze() }) },
			Thaw:   func() { each(func(i int) { f.nodes[i].Thaw() }) },
			Fill: func() (empty func()) {
				undo := make([]func(), size)
				each(func(i int) { undo[i] = redistest.Fill(t, f.nodes[i].Addr) })
				return func() { each(func(i int) { undo[i]() }) }
			},
			Restart: func() { each(func(i int) { f.nodes[i].Kill() }); each(func(i int) { f.nodes[i].Start() }) },
			Cut:     func(backend.Backend) { each(func(i int) { redistest.Cut(t, f.nodes[i].Addr) }) },
			Many:    64,
			Outage:  outage,
		}
		if size == 3 { // with five nodes, these checks take longer and find nothing more
			h.Linked, h.Process = link.URL(f.url(longTTL)), process.Self(f.url(longTTL))
		}
		for _, n := range f.nodes {
			h.Members = append(h.Members, conformance.Member{Freeze: n.Freeze, Thaw: n.Thaw, Stop: n.Kill, Start: n.Start})
		}
		return h
	})
}

// Nodes restart without their data, one after the other. According to the manual, such a node votes again after MaxTTL,
// so MaxTTL is short here. The test runs beside no other test, because a slow node may cost a lease of a few seconds.
func TestEmptiedMembers(t *testing.T) {
	storetest.Long(t, "waits for MaxTTL again and again")
	const maxTTL = 3 * outage // in the suite, leases outlive that many outages
	for _, size := range []int{3, 5} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, size) // a restart loses all data
			f.bootstrap()
			param := paramMaxTTL + "=" + maxTTL.String()
			observer := f.open(param)
			h := conformance.Harness{
				Open:   func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, f.url(param)) },
				Outage: outage,
			}
			for _, n := range f.nodes {
				h.Members = append(h.Members, conformance.Member{
					Freeze: n.Freeze, Thaw: n.Thaw, Stop: n.Kill, Start: n.Start,
					StartEmpty: func() {
						n.Start()
						until(t, 3*maxTTL, "every node votes", func() bool { return observer.voters(t, f) == size })
					},
				})
			}
			results, err := conformance.Execute(context.Background(), h,
				conformance.Options{Run: regexp.MustCompile("EmptiedMember")})
			if err != nil || len(results) != 1 {
				t.Fatalf("%d results, %v", len(results), err)
			}
			for _, r := range results {
				if r.Status != conformance.Pass {
					t.Errorf("%s: %s\n%s", r.Name, r.Status, r.Output)
				}
			}
		})
	}
}
