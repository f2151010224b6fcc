package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

// A movingSlot is a cluster slot that is moving from one server to another.
type movingSlot struct {
	t        testing.TB
	clients  []*redis.Client
	ids      []string
	slot     int
	from, to int
}

// beginMove starts to move the slot of key. It moves no keys yet.
func beginMove(t testing.TB, nodes []*servers.Server, key string) *movingSlot {
	t.Helper()
	m := &movingSlot{t: t, slot: endpoint.Slot(key), from: endpoint.Slot(key) * len(nodes) / endpoint.Slots}
	for _, s := range nodes {
		c := redistest.Raw(t, s.Addr)
		id, err := c.Do(context.Background(), "CLUSTER", "MYID").Text()
		if err != nil {
			t.Fatal(err)
		}
		m.clients, m.ids = append(m.clients, c), append(m.ids, id)
	}
	m.to = (m.from + 1) % len(nodes)
	m.must(m.to, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.ids[m.from])
	m.must(m.from, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.ids[m.to])
	return m
}

func (m *movingSlot) must(node int, args ...any) {
	m.t.Helper()
	if err := m.clients[node].Do(context.Background(), args...).Err(); err != nil {
		m.t.Errorf("%v: %v", args, err)
	}
}

// move moves keys to the new server.
func (m *movingSlot) move(keys ...string) {
	m.t.Helper()
	host, port, _ := strings.Cut(m.clients[m.to].Options().Addr, ":")
	args := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
	for _, k := range keys {
		args = append(args, k)
	}
	m.must(m.from, args...)
}

// finish moves the remaining keys, and assigns the slot to the new server.
func (m *movingSlot) finish() {
	m.t.Helper()
	if left := m.keys(m.from); len(left) > 0 {
		m.move(left...)
	}
	for _, i := range []int{m.to, m.from, 3 - m.to - m.from} {
		m.must(i, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[m.to])
	}
}

// keys returns the keys of the slot on a server.
func (m *movingSlot) keys(node int) []string {
	m.t.Helper()
	keys, err := m.clients[node].ClusterGetKeysInSlot(context.Background(), m.slot, 100).Result()
	if err != nil {
		m.t.Error(err)
	}
	return keys
}

// refusals returns how many requests the servers have refused because of the move (TRYAGAIN).
func (m *movingSlot) refusals() (n int) {
	m.t.Helper()
	for _, c := range m.clients {
		text, err := c.Info(context.Background(), "errorstats").Result()
		if err != nil {
			m.t.Error(err)
		}
		count, _ := strconv.Atoi(strings.TrimPrefix(endpoint.ParseInfo(text)["errorstat_TRYAGAIN"], "count="))
		n += count
	}
	return n
}

// oneSlot returns n keys of one slot, that of name.
func oneSlot(name string, n int) []string {
	keys := []string{name}
	for i := 0; len(keys) < n; i++ {
		if k := fmt.Sprint(name, i); endpoint.Slot(k) == endpoint.Slot(name) {
			keys = append(keys, k)
		}
	}
	return keys
}

// While only some keys of a slot have moved, its servers refuse scripts on several keys. Requests are retried until the
// slot has moved, or fail with ErrUnavailable within their timeout; renewals succeed. Afterwards every operation works,
// and no key is lost or left behind.
func TestMovingSlot(t *testing.T) {
	t.Parallel()
	nodes := cluster(t)
	t.Run("arrives", func(t *testing.T) { movingSlotTest(t, nodes, "arrives", true) })
	t.Run("takes long", func(t *testing.T) { movingSlotTest(t, nodes, "takes long", false) })
}

func movingSlotTest(t *testing.T, nodes []*servers.Server, name string, arrives bool) {
	ctx := context.Background()
	const timeout = 2 * time.Second
	b := opened(t, fmt.Sprintf("redis+cluster://%s?timeout=%s", nodes[0].Addr, timeout))
	const held, ttl = 7, time.Minute
	keys := oneSlot(name, held+1)
	free := keys[held]
	lease := make([]backend.Lease, held)
	for i := range lease {
		lease[i] = acquire(t, b, req(keys[i], ttl))
	}
	next := queueUp(t, b, waiting(keys[4], ttl), 1)
	m := beginMove(t, nodes, name)
	// One key of each pair moves. The contended key moves too, but its queue does not.
	m.move(b.naming.lock(keys[0]), b.naming.lock(keys[2]), b.naming.lock(keys[4]), b.naming.lock(keys[5]))

	before := m.refusals()
	batch := []backend.Renewal{{Lease: lease[0], TTL: 2 * ttl}, {Lease: lease[1], TTL: 2 * ttl}}
	type call struct {
		what string
		do   func() error
	}
	var fresh backend.Lease
	calls := []call{
		{"renew what has moved", func() error { return lease[5].Renew(ctx, 2*ttl) }},
		{"renew what has not", func() error { return lease[6].Renew(ctx, 2*ttl) }},
		{"renew a batch", func() error { return errors.Join(b.RenewBatch(ctx, batch)...) }},
		{"release what has moved", func() error { return lease[2].Release(ctx) }},
		{"release what has not", func() error { return lease[3].Release(ctx) }},
		{"release what has a waiter", func() error { return lease[4].Release(ctx) }},
		{"acquire", func() (err error) { fresh, err = b.Acquire(ctx, req(free, ttl)); return err }},
	}
	type ended struct {
		call
		err  error
		took time.Duration
	}
	done := make(chan ended)
	for _, c := range calls {
		go func() {
			begun := time.Now()
			err := c.do()
			done <- ended{c, err, time.Since(begun)}
		}()
	}
	// Three releases and an acquire are refused repeatedly, and the batch once.
	const often = 7
	until(t, soon, "requests were refused again and again", func() bool { return m.refusals() > before+4*often })
	if arrives {
		m.finish()
	}
	for range calls {
		e := <-done
		t.Logf("%s: %v after %v", e.what, e.err, e.took)
		switch {
		case e.err != nil && (!errors.Is(e.err, backend.ErrUnavailable) || kit.IsContextError(e.err)):
			t.Errorf("%s: %v, want ErrUnavailable", e.what, e.err)
		case e.err != nil && (arrives || strings.HasPrefix(e.what, "renew")):
			t.Errorf("%s: %v, though the slot has arrived, or each lease can be renewed by itself", e.what, e.err)
		case e.took > timeout+soon/2:
			t.Errorf("%s took %v", e.what, e.took)
		}
	}
	if !arrives {
		m.finish()
	}
	// Afterwards, every operation works.
	if err := errors.Join(b.RenewBatch(ctx, batch)...); err != nil {
		t.Errorf("renew a batch when the slot has arrived: %v", err)
	}
	for _, i := range []int{0, 1, 5, 6} {
		release(t, lease[i])
	}
	release(t, granted(t, next, 2*soon).Lease)
	if fresh != nil {
		release(t, fresh)
	}
	for _, k := range keys {
		var l backend.Lease
		until(t, 2*soon, "every key is free", func() bool {
			var err error
			l, err = b.Acquire(ctx, req(k, ttl))
			return err == nil
		})
		release(t, l)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for i := range nodes {
		for _, k := range m.keys(i) {
			if i != m.to || k != b.naming.names(name).fence {
				t.Errorf("node %d still has %q", i, k)
			}
		}
	}
}
