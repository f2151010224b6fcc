package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// An attempt that loses the race for a free key must delete its own node before it returns ErrHeld. Otherwise that
// node refuses everybody after the winner's release.
func TestRefusalWaitsForItsDelete(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	admin := raw(t, s.Addr)
	winner := opened(t, s.url())
	for _, forward := range []bool{true, false} {
		for _, away := range []bool{true, false} {
			t.Run(fmt.Sprintf("forward %v away %v", forward, away), func(t *testing.T) {
				storetest.ThreeTries(t, func() error {
					p := newProxy(t, s.Addr)
					loser := opened(t, s.at(p.Addr))
					key := backend.NewOwner()
					release(t, acquire(t, winner, req(key, time.Minute))) // the container exists
					if _, err := loser.Inspect(t.Context(), key); err != nil {
						t.Fatal(err)
					}
					created, pass := p.hold(opCreate)
					within := 4 * soon // a server that is reachable again must answer in this time
					if away {
						within = 2 * time.Second
					}
					ctx, cancel := context.WithTimeout(t.Context(), within)
					defer cancel()
					refusal := make(chan error, 1)
					go func() {
						l, err := loser.Acquire(ctx, req(key, time.Minute))
						if err == nil {
							_ = l.Release(context.Background())
						}
						refusal <- err
					}()
					<-created
					held := acquire(t, winner, req(key, time.Minute))
					deleted := p.once(opDelete, func() (bool, bool) {
						p.Refuse(away)
						return forward, true
					})
					pass()
					err := <-refusal
					<-deleted
					release(t, held)
					if n := len(places(t, admin, winner, key)); n != 0 && errors.Is(err, backend.ErrHeld) {
						t.Errorf("the attempt was refused (%v), and %d nodes of it remain", err, n)
					}
					p.Refuse(false)
					until(t, 4*soon, "the key is free", func() bool { return len(places(t, admin, winner, key)) == 0 })
					if !away && !errors.Is(err, backend.ErrHeld) {
						return fmt.Errorf("the server was reachable again: %v, want ErrHeld", err)
					}
					return nil
				})
			})
		}
	}
}

// A client that abandons a session cannot know whether its nodes still exist. An attempt that created a node in that
// session and then uses another session must not report its own node as another holder.
func TestAbandonedSessionIsNoRefusal(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	admin := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr)+"?session_timeout=6s")
	const ttl = time.Second
	r := req("k", ttl)
	release(t, acquire(t, b, r))                      // the container exists
	lost := acquire(t, b, req("lost meanwhile", ttl)) // in the same session, so that the client abandons the session
	home, _ := lost.(lease).n.sessions()
	created := p.once(opCreate, func() (bool, bool) {
		p.set(func(p *proxy) { p.silent = true })
		return true, false
	})
	r.Owner = backend.NewOwner()
	answer := make(chan error, 1)
	go func() {
		l, err := b.Acquire(t.Context(), r)
		if err == nil {
			err = l.Release(t.Context())
		}
		answer <- err
	}()
	<-created
	<-home.ended
	until(t, soon, "the create request has arrived", func() bool { return len(places(t, admin, b, r.Key)) == 1 })
	p.set(func(p *proxy) { p.silent = false })
	err := <-answer
	if errors.Is(err, backend.ErrHeld) || !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("nobody holds the key: %v, want ErrUnavailable", err)
	}
	until(t, b.Guarantees().MaxLate+soon, "the key is free", func() bool { return len(places(t, admin, b, r.Key)) == 0 })
}
