package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// An attempt that creates the container of a new key, and ends before it creates its node, leaves no container. The
// servers remove no container that has never had a child.
func TestCancelledAttemptLeavesNoContainer(t *testing.T) {
	t.Parallel()
	s := on(t, tidy)
	c := raw(t, s.Addr)
	for _, wait := range []bool{false, true} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("wait %v lost %v", wait, lost), func(t *testing.T) {
				p := newProxy(t, s.Addr)
				b := opened(t, s.at(p.Addr))
				r := req(t.Name(), time.Minute)
				r.Wait = wait
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var met <-chan struct{}
				pass := func() { p.Refuse(false) }
				if lost { // the create of the node, and the connection with it
					met = p.afterContainer(func() { p.Refuse(true) })
				} else { // the create of the container is late
					met, pass = p.hold(opContainer)
				}
				t.Cleanup(pass)
				go func() {
					<-met
					cancel()
				}()
				if l, err := b.Acquire(ctx, r); !errors.Is(err, context.Canceled) {
					t.Fatalf("acquire: %v, %v, want the context's error", l, err)
				}
				pass()
				// A request behind that for the container on the same connection.
				until(t, soon, "the client works again", func() bool {
					_, err := b.Inspect(t.Context(), r.Key)
					return err == nil
				})
				gone(t, c, b.dir(r.Key), soon)
			})
		}
	}
}

// afterContainer drops the first create of a node after that of a container, and breaks all connections. Just before,
// it calls f.
func (p *proxy) afterContainer(f func()) (met <-chan struct{}) {
	done := make(chan struct{})
	var container, dropped bool
	p.set(func(p *proxy) {
		p.request = func(op int32) (forward, cut bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			container = container || op == opContainer
			if !container || dropped || op != opCreate {
				return true, false
			}
			dropped = true
			f()
			close(done)
			return false, true
		}
	})
	return done
}
