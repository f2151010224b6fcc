package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/redis/internal/redistest"
)

// fill uses up the nodes' memory, or, if full is false, frees it.
func (f *fleet) fill(full bool) {
	f.t.Helper()
	limit := map[bool]string{true: "1", false: "0"}[full]
	for _, n := range f.nodes {
		if err := redistest.Raw(f.t, n.Addr).ConfigSet(context.Background(), "maxmemory", limit).Err(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// Full servers still renew and release leases, but grant nothing new.
func TestFull(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, append([]string{"--maxmemory-policy", "noeviction"}, redistest.Durable...)...)
	f.bootstrap()
	r := f.open()
	const ttl, leases = 6 * time.Second, 10
	var batch []backend.Renewal
	for i := range leases {
		batch = append(batch, backend.Renewal{Lease: acquire(t, r, req(fmt.Sprint("k", i), time.Minute)), TTL: ttl})
	}
	for _, b := range batch {
		f.whole(r, b.Lease)
	}
	f.fill(true)
	ctx := context.Background()
	renew := func() {
		t.Helper()
		for i, err := range r.RenewBatch(ctx, batch) {
			if err != nil {
				t.Fatalf("renewal %d in full servers: %v", i, err)
			}
		}
	}
	renew()
	for first := batch[0].Lease.Deadline(); time.Now().Before(first.Add(time.Second)); time.Sleep(ttl / 10) {
		renew()
	}
	for i := range batch {
		batch[i].TTL = time.Minute
	}
	renew() // the leases outlast the rest of the test
	if _, err := r.Acquire(ctx, req("new", ttl)); err == nil || errors.Is(err, backend.ErrHeld) ||
		!strings.Contains(err.Error(), "OOM") {
		t.Errorf("a new lease in full servers: %v", err)
	}
	other := f.open() // handshakes succeed
	if _, err := other.Acquire(ctx, req("k1", ttl)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("a held key of full servers: %v", err)
	}
	for _, b := range batch {
		release(t, b.Lease)
	}
	for i := range leases {
		f.free(fmt.Sprint("k", i))
	}
	f.fill(false)
	release(t, acquire(t, r, req("new", ttl)))
}

// A minority that is temporarily unable to serve does not make opening fail. Here it is a new node that is full, which
// cannot store its birth record; a node that still loads its data replies with an error too.
func TestOpenBesideFullNode(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2, redistest.Durable...)
	f.bootstrap()
	full := servers.Redis(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	r := opened(t, through([]string{f.nodes[0].Addr, f.nodes[1].Addr, full.Addr}))
	if err := r.NotReady(); err != nil {
		t.Error(err)
	}
	release(t, acquire(t, r, req("k", time.Minute)))
}
