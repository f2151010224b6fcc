package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// raw returns a plain client that is connected. It inspects the server independently of the Backend.
func raw(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for range events {
		}
	})
	if _, _, err := c.Exists(rootPath); err != nil {
		t.Fatal(err)
	}
	return c
}

// places returns the queue of a key. It is empty if the key has no container.
func places(t testing.TB, c *zk.Conn, b *Backend, key string) []place {
	t.Helper()
	names, _, err := c.Children(b.dir(key))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return queueOf(names)
}

// lostCreate breaks all connections at the next create, and refuses new ones for the time away. The create reaches the
// server if forward is set.
func lostCreate(p *proxy, forward bool, away time.Duration) (met <-chan struct{}) {
	return p.once(opCreate, func() (bool, bool) {
		p.Refuse(true)
		time.AfterFunc(away, func() { p.Refuse(false) })
		return forward, true
	})
}

// If the connection breaks after a create, and the caller gives up while the server is unreachable, no node remains.
// (Z1)
func TestLostCreateLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	for _, wait := range []bool{false, true} {
		t.Run(fmt.Sprint("wait ", wait), func(t *testing.T) {
			p := newProxy(t, s.Addr)
			b := opened(t, s.at(p.Addr))
			r := req("k"+strconv.FormatBool(wait), time.Minute)
			r.Wait = wait
			release(t, acquire(t, b, r)) // now the container and the session exist
			id := b.onlySession(t).id
			r.Owner = backend.NewOwner()
			met := p.once(opCreate, func() (bool, bool) {
				p.Refuse(true)
				return true, true
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var ended time.Time
			go func() { // while the server is unreachable
				<-met
				time.Sleep(300 * time.Millisecond) // sleeps: how long the server is unreachable
				ended = time.Now()
				cancel()
			}()
			if _, err := b.Acquire(ctx, r); !errors.Is(err, context.Canceled) {
				t.Fatalf("acquire: %v, want the context's error", err)
			}
			if took := time.Since(ended); took > soon { // the request and the session last for longer
				t.Errorf("acquire took %v from the end of its context", took)
			}
			until(t, soon, "the create has arrived", func() bool { return len(places(t, c, b, r.Key)) == 1 })
			p.Refuse(false)
			until(t, soon, "the node is removed", func() bool { return len(places(t, c, b, r.Key)) == 0 })
			time.Sleep(aWhile) // sleeps: the period in which a late create could arrive
			if n := len(places(t, c, b, r.Key)); n != 0 {
				t.Errorf("%d nodes", n)
			}
			if b.onlySession(t).id != id {
				t.Error("the session is another one: its end has removed the node")
			}
		})
	}
}

// onlySession returns the session of a Backend that must have exactly one.
func (b *Backend) onlySession(t *testing.T) *session {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sessions) != 1 {
		t.Fatalf("%d sessions", len(b.sessions))
	}
	for _, s := range b.sessions {
		return s
	}
	return nil
}

// If the connection breaks after a create, the attempt still succeeds, whether or not the create has arrived. The key
// then has one node, and none after the release.
func TestLostCreateIsRecovered(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	ended := 0
	for i := 0; i < 8; i++ {
		r := req("k", time.Minute)
		r.Wait = i%4 >= 2
		release(t, acquire(t, b, req("k", time.Minute)))
		was := b.onlySession(t)
		met := lostCreate(p, i%2 == 0, 100*time.Millisecond)
		l, err := b.Acquire(t.Context(), r)
		<-met
		if err != nil && was.hasEnded() && ended < 2 { // the session has expired on a slow machine
			ended++
			i--
			until(t, 4*soon, "the session's node is gone", func() bool { return len(places(t, c, b, "k")) == 0 })
			continue
		}
		if err != nil {
			t.Fatalf("round %d: acquire by %s: %v", i, r.Owner, err)
		}
		q := places(t, c, b, "k")
		if len(q) != 1 || q[0].owner() != r.Owner {
			t.Errorf("round %d: nodes %v, want one of %s", i, q, r.Owner)
		}
		_, st, err := c.Get(b.dir("k") + "/" + q[0].name)
		if err != nil || uint64(st.Czxid) != l.Token() {
			t.Errorf("round %d: token %d, node %+v, %v", i, l.Token(), st, err)
		}
		if _, err := b.Acquire(t.Context(), req("k", time.Minute)); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("round %d: a second acquire: %v", i, err)
		}
		release(t, l)
		until(t, soon, "nothing is left", func() bool { return len(places(t, c, b, "k")) == 0 })
	}
}

// Children of a key that this store did not create affect no lock, and are not deleted. (Z2)
func TestForeignChildren(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	release(t, acquire(t, b, req("k", time.Minute)))
	foreign := []string{
		"a", "_c_", "_c_x", "lock-0000000000", "_c_x-lock-", "_c_x-lock-12x", "_c_-lock-99999999999", "x-lock-0000000000",
		"_c_0123456789abcdef0123456789abcde-lock-", "-lock-0000000000", "0000000000",
	}
	for _, name := range foreign {
		if _, err := c.Create(b.dir("k")+"/"+name, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for range 3 {
		l := acquire(t, b, req("k", time.Minute))
		done := make(chan error, 1)
		go func() {
			l, err := b.Acquire(context.Background(), waiting("k", time.Minute))
			if err == nil {
				err = l.Release(context.Background())
			}
			done <- err
		}()
		until(t, soon, "the waiter queues", func() bool { return len(places(t, c, b, "k")) == 2 })
		if h, err := b.Inspect(t.Context(), "k"); err != nil || h.Token != l.Token() || h.Waiters != 1 {
			t.Errorf("inspect: %+v, %v", h, err)
		}
		release(t, l)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	names, _, err := c.Children(b.dir("k"))
	if err != nil || len(names) != len(foreign) {
		t.Errorf("children %v, %v, want the %d foreign ones", names, err, len(foreign))
	}
}

// counts returns how many nodes are in the queue of a key, and how many of them are watched.
func counts(t testing.TB, c *zk.Conn, addr string, b *Backend, key string) (nodes, watches int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*soon)
	defer cancel()
	text, err := servers.ZooKeeperAsk(ctx, addr, "wchp")
	if err != nil && ctx.Err() != nil {
		t.Fatal(err) // without any watch, the reply is empty
	}
	for line := range strings.Lines(text) { // a path, followed by the sessions that watch it
		if strings.HasPrefix(line, b.dir(key)+"/") {
			watches++
		}
	}
	return len(places(t, c, b, key)), watches
}

// Canceled waiters leave no nodes, and at most one watch, which the release removes. (Z5)
func TestCancelledWaitersLeaveNothing(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	waiters := 1000
	if testing.Short() {
		waiters = 200 // each reads the whole queue
	}
	// All waiters arrive at once, and each reads the queue, so a request may take longer than usual.
	b, err := openNew(t, []string{s.Addr}, &Options{Chroot: s.chroot, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.watchAfter = time.Hour // only the waiters' watches are counted
	l := acquire(t, b, req("k", time.Hour))
	nodes, watches := counts(t, c, s.Addr, b, "k")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() {
			if _, err := b.Acquire(ctx, waiting("k", time.Minute)); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
	var n, w int
	defer func() { t.Logf("of %d waiters %d had queued, %d watched", waiters, n-nodes, w-watches) }()
	until(t, time.Minute, "all wait", func() bool {
		n, w = counts(t, c, s.Addr, b, "k")
		return n == nodes+waiters && w == watches+waiters
	})
	cancel()
	wg.Wait()
	// One watch remains on the holder's node. Later waiters share it.
	until(t, 30*time.Second, "nodes and watches are gone", func() bool {
		n, w := counts(t, c, s.Addr, b, "k")
		return n == nodes && w <= watches+1
	})
	// Waiters that come one after the other share it, too, also in the client.
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, _ = b.Acquire(ctx, waiting("k", time.Minute))
		cancel()
	}
	sess := b.onlySession(t)
	until(t, 4*soon, "the session keeps one watch", func() bool {
		n, w := counts(t, c, s.Addr, b, "k")
		sess.mu.Lock()
		defer sess.mu.Unlock()
		return n == nodes && w <= watches+1 && len(sess.watches) <= 1
	})
	release(t, l)
	until(t, 4*soon, "the last watch is gone", func() bool {
		n, w := counts(t, c, s.Addr, b, "k")
		sess.mu.Lock()
		defer sess.mu.Unlock()
		return n == nodes-1 && w == watches && len(sess.watches) == 0
	})
}

// A node from a create whose connection broke is deleted. It never becomes the place of the next create. (Z9,
// CURATOR-498)
func TestFoundNodeIsNotAdopted(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	release(t, acquire(t, b, req("k", time.Minute)))
	sess := b.onlySession(t)
	n := newNode(sess, req("k", time.Minute))
	path, err := c.Create(n.dir+"/"+n.prefix, record(0, n.owner), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := sess.create(t.Context(), n, false); err != nil {
		t.Fatal(err)
	}
	if q := queueOf([]string{n.name, path[len(n.dir)+1:]}); len(q) != 2 || q[1].name != n.name {
		t.Errorf("another node was adopted: %v", q)
	}
	stray := newNode(sess, req("k", time.Minute))
	if _, err := c.Create(stray.dir+"/"+stray.prefix, nil, zk.FlagEphemeralSequential,
		zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	d := &pendingDelete{dir: stray.dir, prefix: stray.prefix}
	if !sess.tryDelete(t.Context(), d) {
		t.Error("not deleted")
	}
	if q := places(t, c, b, "k"); len(q) != 2 || q[1].name != n.name {
		t.Errorf("places %v, want all but the stray", q)
	}
}

// The same as TestLostCreateIsRecovered, for the first create of a key, and for the create of its container, which
// another client may have created meanwhile.
func TestLostCreateOfNewKey(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	b, other := opened(t, s.at(p.Addr)), opened(t, s.url())
	for i := range 16 {
		r := req(fmt.Sprint("new", i), time.Minute)
		r.Wait = i%4 >= 2
		kind := []int32{opContainer, opCreate}[i/4%2]
		made := i >= 8
		met := p.once(kind, func() (bool, bool) {
			if made && kind == opContainer {
				release(t, acquire(t, other, req(r.Key, time.Minute)))
			}
			return i%2 == 0, true
		})
		if made && kind == opCreate {
			release(t, acquire(t, other, req(r.Key, time.Minute)))
		}
		l := acquire(t, b, r)
		<-met
		q := places(t, c, b, r.Key)
		if len(q) != 1 || q[0].owner() != r.Owner {
			t.Fatalf("round %d: nodes %v, want one of %s", i, q, r.Owner)
		}
		_, st, err := c.Get(b.dir(r.Key) + "/" + q[0].name)
		if err != nil || uint64(st.Czxid) != l.Token() || st.EphemeralOwner == 0 {
			t.Errorf("round %d: token %d, node %+v, %v", i, l.Token(), st, err)
		}
		release(t, l)
		time.Sleep(aWhile) // sleeps: the period in which a late create could arrive
		if q := places(t, c, b, r.Key); len(q) != 0 {
			t.Errorf("round %d: left behind: %v", i, q)
		}
	}
}

// The first acquire of a key creates a container, which the servers delete when it is empty. Later tokens are still
// greater, and each token is the zxid of its node's create.
func TestNewKeyIsContainer(t *testing.T) {
	t.Parallel()
	s := on(t, tidy)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	var last uint64
	for i := range 6 {
		r := req("k", time.Minute)
		r.Wait = i%2 == 0
		l := acquire(t, b, r)
		_, st, err := c.Get(b.dir("k") + "/" + places(t, c, b, "k")[0].name)
		if err != nil || uint64(st.Czxid) != l.Token() || l.Token() <= last {
			t.Errorf("round %d: token %d after %d, node %+v, %v", i, l.Token(), last, st, err)
		}
		last = l.Token()
		release(t, l)
		gone(t, c, b.dir("k"), soon)
	}
}
