package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// A node is deleted if the reply to its create arrives when createOnce has returned, or never arrives because the
// connection breaks then. The search by create may have ended before, if the request was sent late.
func TestLateCreateIsDeleted(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprint("broken ", broken), func(t *testing.T) {
			p := newProxy(t, s.Addr)
			b := opened(t, s.at(p.Addr))
			key := t.Name()
			release(t, acquire(t, b, req(key, time.Minute))) // now the container and the session exist
			sess := b.onlySession(t)
			id := sess.id
			created, answer := make(chan struct{}), make(chan struct{})
			p.once(opCreate, func() (forward, cut bool) {
				close(created)
				<-answer
				return true, broken
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-created
				cancel()
			}()
			_, _, err := sess.createOnce(ctx, newNode(sess, req(key, time.Minute)))
			close(answer)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("create: %v, want the context's error", err)
			}
			until(t, 2*soon, "the node is created and deleted", func() bool {
				_, st, err := c.Get(b.dir(key))
				return err == nil && st.Cversion == 4 // two creates and two deletes
			})
			if sess.hasEnded() || b.onlySession(t).id != id {
				t.Error("the session is another one: its end has removed the node")
			}
		})
	}
}

// One search that does not find the node of an unanswered create proves nothing: the create may arrive after it.
func TestCreateThatArrivesAfterSearchIsDeleted(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	release(t, acquire(t, b, req("k", time.Minute)))
	sess := b.onlySession(t)
	n := newNode(sess, req("k", time.Minute))
	d := &pendingDelete{dir: n.dir, prefix: n.prefix}
	begun := time.Now()
	if sess.tryDelete(t.Context(), d) && time.Since(begun) < lateArrival {
		t.Fatal("the first search counts as a proof")
	}
	if _, err := c.Create(n.dir+"/"+n.prefix, nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	sess.deleteLater(d)
	until(t, 2*soon, "the node is deleted", func() bool { return len(places(t, c, b, "k")) == 0 })
}
