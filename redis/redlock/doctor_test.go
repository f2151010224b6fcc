package redlock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

func TestDoctorWellConfigured(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	storetest.Healthy(t, f.open())
}

func TestDoctorNewFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	r := f.open()
	storetest.Finds(t, r, "no-quorum", "no-vote")
}

func TestDoctorMissingNode(t *testing.T) {
	storetest.Long(t, "a server of three that is missing")
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	f.nodes[2].Kill()
	if got := storetest.Finds(t, r, "unreachable"); got.Where != f.nodes[2].Addr {
		t.Errorf("%+v", got)
	}
}

// Callers' clients with default options ignore deadlines, but Examine ends with its context, or after the request
// timeout, with a finding.
func TestDoctorHungNode(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	var clients []*redis.Client
	for _, n := range f.nodes {
		clients = append(clients, redistest.Raw(t, n.Addr))
	}
	r, err := New(t.Context(), clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f.nodes[2].Freeze()
	defer f.nodes[2].Thaw()
	for limit, want := range map[time.Duration]error{100 * time.Millisecond: context.DeadlineExceeded, time.Minute: nil} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		var list []backend.Finding
		done := make(chan error, 1)
		go func() {
			var err error
			list, err = r.Examine(ctx)
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, want) {
				t.Errorf("within %v: %v, want %v", limit, err, want)
			}
		case <-time.After(exchange.DefaultTimeout + soon): // go-redis' own attempts take longer
			t.Fatalf("no end, with a context that ends after %v", limit)
		}
		isMissing := func(f backend.Finding) bool { return f.Code == "unreachable" }
		if want == nil && !slices.ContainsFunc(list, isMissing) {
			t.Errorf("no finding about a node that hangs: %+v", list)
		}
	}
}

func TestDoctorClocks(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	r := opened(t, through([]string{redistest.Shifted(t, f.nodes[0].Addr).Addr, f.nodes[1].Addr, f.nodes[2].Addr}))
	storetest.Finds(t, r, "clocks-apart", "clock-skew")
}
