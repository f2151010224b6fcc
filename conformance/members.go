package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

var memberChecks = []Check{
	{
		Name: "StoppedMemberLosesNothing",
		Rule: "rules 1, 7 and 9: when a server of a cluster is killed and started again, no lease, waiter or token " +
			"order is lost",
		Needs: []Need{needsMembers},
		alone: true,
		run: func(t *trial) {
			t.membersFail("stopped", func(m Member) (restore func()) { m.Stop(); return m.Start })
		},
	},
	{
		Name: "FrozenMemberLosesNothing",
		Rule: "rules 1, 7 and 9: when a server of a cluster stops answering and goes on later, no lease, waiter or token " +
			"order is lost",
		Needs: []Need{needsMembers, needsFreezing},
		alone: true,
		run: func(t *trial) {
			t.membersFail("frozen", func(m Member) (restore func()) { m.Freeze(); return m.Thaw })
		},
	},
	{
		Name: "EmptiedMemberLosesNothing",
		Rule: "rules 1, 7 and 9: when a server of a cluster comes back without its data, no lease, waiter or token " +
			"order is lost",
		Needs: []Need{needsMembers, needsEmptying},
		alone: true,
		run: func(t *trial) {
			t.membersFail("emptied", func(m Member) (restore func()) { m.Stop(); return m.StartEmpty })
		},
	},
}

// membersFail lets one member after the other fail. It checks that the store serves again within Outage, both during
// the failure and afterwards. It also checks that all leases, waits and token orders from before survive.
func (t *trial) membersFail(how string, fail func(m Member) (restore func())) {
	c := &clusterTrial{trial: t, order: &tokens{t: t}, orderKey: t.newKey()}
	t.h.Gather() // a member may still recover from another check, and an election fails requests too
	c.keep()
	for i, m := range t.h.Members {
		if i > 0 {
			t.h.Gather()
		}
		name := fmt.Sprintf("member %d of %d was %s", i+1, len(t.h.Members), how)
		held := t.acquire(t.a, t.newKey(), c.ttl())
		next := t.wait(t.b, held.key, c.ttl())
		t.confirmQueued(held.key, 1)
		before := c.before()
		restore := sync.OnceFunc(fail(m))
		t.endsFault(restore)
		c.serves("after " + name)
		c.handsOver(held, next, "after "+name)
		restore()
		c.serves("after " + name + " and came back")
		before.outlived("after " + name + " and came back")
	}
	c.end()
}

// A clusterTrial holds leases, and attempts to acquire their keys, while members fail.
type clusterTrial struct {
	*trial
	order    *tokens
	orderKey string

	kept  []*grant
	done  chan struct{}
	wg    sync.WaitGroup
	tries atomic.Int64 // attempts by intrude that were refused
}

// ttl returns a TTL that outlives an outage and leaves time to renew.
func (c *clusterTrial) ttl() time.Duration {
	const least = 5 * time.Second
	return c.g.Round(max(least, 3*c.h.Outage, 4*c.g.MinTTL))
}

// keep acquires leases by both clients and keeps renewing them, while the other client attempts to acquire their keys.
func (c *clusterTrial) keep() {
	c.done = make(chan struct{})
	for _, pair := range [][2]backend.Backend{{c.a, c.b}, {c.b, c.a}, {c.a, c.b}} {
		g := c.acquire(pair[0], c.newKey(), c.ttl())
		c.kept = append(c.kept, g)
		c.repeat(c.ttl()/16, func() { c.prolong(g) })
		c.repeat(20*time.Millisecond, func() { c.intrude(pair[1], g) })
	}
}

// repeat calls f at intervals of pause until end is called.
func (c *clusterTrial) repeat(pause time.Duration, f func()) {
	c.wg.Add(1)
	c.spawn(func() {
		defer c.wg.Done()
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-c.done:
				return
			case <-c.ctx.Done():
				return
			case <-tick.C:
				f()
			}
		}
	})
}

// prolong renews g. An outage may lose the reply, but not the lease.
func (c *clusterTrial) prolong(g *grant) {
	ctx, cancel := context.WithTimeout(c.ctx, c.ttl()/4)
	defer cancel()
	deadline := g.Deadline()
	if err := g.Renew(ctx, c.ttl()); errors.Is(err, backend.ErrLost) && time.Now().Before(deadline) {
		c.fatalf("a live lease was lost %v before its deadline: %v", time.Until(deadline), err)
	}
}

// intrude attempts to acquire the key of g, which must not succeed while g is live.
func (c *clusterTrial) intrude(b backend.Backend, g *grant) {
	ctx, cancel := context.WithTimeout(c.ctx, c.ttl()/4)
	defer cancel()
	other, err := c.requestKey(ctx, b, g.key, c.ttl(), false)
	switch {
	case err == nil && g.live(other.after) && !c.ended(): // an ended check releases its leases
		c.doubleGrant("a second owner was granted a key %v before the holder's deadline", time.Until(g.Deadline()))
	case errors.Is(err, backend.ErrHeld):
		c.tries.Add(1)
	}
}

// serves checks that both clients can acquire and release a fresh key within Outage, and that tokens still increase.
func (c *clusterTrial) serves(when string) {
	begun := time.Now()
	var wg sync.WaitGroup
	for _, b := range []backend.Backend{c.a, c.b} {
		wg.Go(func() {
			defer c.recover()
			c.works(b, c.newKey(), begun, when)
		})
	}
	wg.Wait()
	c.stillGoing()
	c.notef("%s: served again within %v", when, time.Since(begun).Round(time.Millisecond))
	for _, b := range []backend.Backend{c.a, c.b} {
		g := c.works(b, c.orderKey, begun, when)
		if c.g.Fencing >= backend.FencingRestart {
			c.order.next(g, when)
		}
	}
}

// works checks that b can acquire and release key within Outage since begun.
func (c *clusterTrial) works(b backend.Backend, key string, begun time.Time, when string) (g *grant) {
	c.succeedsBy(begun.Add(c.h.Outage), when+": Acquire of a free key", func(ctx context.Context) (err error) {
		g, err = c.requestKey(ctx, b, key, c.ttl(), false)
		return err
	})
	c.succeedsBy(begun.Add(c.h.Outage), when+": Release", g.Release)
	return g
}

// succeedsBy repeats request until it succeeds, which must happen by end.
func (c *clusterTrial) succeedsBy(end time.Time, what string, request func(ctx context.Context) error) {
	begun := time.Now()
	end = later(end, begun.Add(max(time.Second, c.h.Outage/2))) // earlier steps may have used up the time
	ctx, cancel := context.WithDeadline(c.ctx, end)
	defer cancel()
	for {
		err := request(ctx)
		if err == nil {
			return
		}
		if !time.Now().Before(end) {
			c.fatalf("%s, for %v: %v; Harness.Outage is %v", what, time.Since(begun), err, c.h.Outage)
		}
		time.Sleep(tick)
	}
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// handsOver releases held, for which next has been waiting since before the failure.
func (c *clusterTrial) handsOver(held *grant, next *waiting, when string) {
	if held.gone() {
		c.fatalf("%s: a lease of %v was lost", when, c.ttl())
	}
	c.succeedsBy(time.Now().Add(c.h.Outage), when+": Release of a lease from before", held.Release)
	g := next.granted(c.trial, c.h.Outage+c.handOff(), when+", to a waiter from before")
	if c.g.Fencing >= backend.FencingRestart && g.Token() <= held.Token() {
		c.fatalf("%s: token %d after %d", when, g.Token(), held.Token())
	}
	c.succeedsBy(time.Now().Add(c.h.Outage), when+": Release", g.Release)
}

// end checks that the kept leases still exist, and that attempts to acquire their keys were refused rather than
// delayed.
func (c *clusterTrial) end() {
	close(c.done)
	c.wg.Wait()
	c.stillGoing()
	for _, g := range c.kept {
		if g.gone() {
			c.fatalf("a lease that was renewed all the while is lost")
		}
		c.heldBy(g)
		c.release(g)
	}
	if c.tries.Load() == 0 {
		c.fatalf("not one attempt at a held key was answered")
	}
}

// stillGoing ends the calling goroutine if another goroutine of the check has failed.
func (c *clusterTrial) stillGoing() {
	if c.ended() {
		runtime.Goexit()
	}
}
