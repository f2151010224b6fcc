package redlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

// A lease can be resumed while a node is down. If the other nodes do not agree on the token, Resume fails and does not
// end the lease. After a renewal, Resume succeeds.
func TestResumeWithoutANode(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	b, other := f.open(), f.open()
	r := req("k", time.Minute)
	l := acquire(t, b, r)
	f.whole(b, l)
	f.nodes[0].Kill()

	raw, name := redistest.Raw(t, f.nodes[1].Addr), newNaming(endpoint.DefaultNamespace).lock("k")
	value, err := raw.Get(t.Context(), name).Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(value, ":")
	if err := raw.Set(t.Context(), name, "1:"+rest, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if resumed, err := other.Resume(t.Context(), r); !errors.Is(err, backend.ErrUnavailable) {
		t.Fatalf("Resume when the nodes do not agree on the token: %v, %v, want ErrUnavailable", resumed, err)
	}
	if err := l.Renew(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	resumed, err := other.Resume(t.Context(), r)
	if err != nil || resumed.Token() != l.Token() {
		t.Fatalf("Resume: %v, %v, want token %d", resumed, err, l.Token())
	}
	for _, lease := range []backend.Lease{l, resumed, l, resumed} {
		if err := lease.Renew(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
	}
	release(t, resumed)
	if err := l.Renew(t.Context(), time.Minute); !errors.Is(err, backend.ErrLost) {
		t.Errorf("Renew after the release of the resumed lease: %v, want ErrLost", err)
	}
	for _, n := range f.nodes[1:] {
		if keys := f.keys(n); len(keys) > 0 {
			t.Errorf("%s has %q", n.Addr, keys)
		}
	}
	f.nodes[0].Start()
	until(t, soon, "the node that was down has nothing of the lease", func() bool { return len(f.keys(f.nodes[0])) == 0 })
}

// A resumed lease numbers its requests after the last one that any node has had from the owner. What another owner's
// leftover at a node says does not count.
func TestResumedNumbers(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef"
	q := req("k", time.Minute)
	node := func(owner string, number int64) *fakeNode {
		return &fakeNode{reply: []any{"41", id + owner, int64(30000), number}}
	}
	r := onNodes(t, node(q.Owner, 3), node(q.Owner, 7), node("another", 99), node(q.Owner, 5),
		&fakeNode{reply: []any{"0", "", int64(-2), int64(0)}})
	c, err := r.heldClaim(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if number := c.number.Load(); c.id != id+q.Owner || c.token != 41 || number != 7 {
		t.Errorf("id %q, token %d, number %d; want %q, 41, 7", c.id, c.token, number, id+q.Owner)
	}
	q.Owner = "nobody"
	if _, err := r.heldClaim(t.Context(), q); !errors.Is(err, backend.ErrLost) {
		t.Errorf("an owner without the lease: %v, want ErrLost", err)
	}
}
