package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance"
)

// A sham is a simulated process: a client behind a wire. While it is frozen, calls neither begin nor return.
type sham struct {
	*client
	skew time.Duration

	mu     sync.Mutex
	leases map[string]backend.Lease // by owner
	frozen chan struct{}            // closed by Thaw; nil while the process runs
	killed bool
}

var errKilled = errors.New("the process was killed")

func (s *server) process(_ context.Context, skew time.Duration) (conformance.Process, error) {
	if s.is("other processes have a store of their own") {
		s = newServer(s.bug)
	}
	c := newClient(s)
	c.wire = newWire()
	c.skew = skew
	c.events.remote = true
	return &sham{client: c, skew: skew, leases: make(map[string]backend.Lease)}, nil
}

// run waits until the process is not frozen, calls f, and waits again.
func (p *sham) run(f func() error) error {
	p.wait()
	err := f()
	p.wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return errKilled
	}
	return err
}

// wait returns when the process is not frozen, or has been killed.
func (p *sham) wait() {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

func (p *sham) Acquire(r backend.Request) (<-chan conformance.ProcessGrant, error) {
	answered := make(chan conformance.ProcessGrant, 1)
	go func() {
		var l backend.Lease
		err := p.run(func() (err error) {
			l, err = p.client.Acquire(context.Background(), r)
			if err == nil {
				p.mu.Lock()
				p.leases[r.Owner] = l
				p.mu.Unlock()
			}
			return err
		})
		if err != nil {
			answered <- conformance.ProcessGrant{Err: err}
			return
		}
		answered <- conformance.ProcessGrant{Token: l.Token(), Left: time.Until(l.Deadline()), Looked: time.Now()}
	}()
	return answered, nil
}

func (p *sham) lease(owner string) (backend.Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.leases[owner]; l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("%q has no lease", owner)
}

func (p *sham) Renew(ctx context.Context, owner string, ttl time.Duration) error {
	believed := p.is("renewal that was frozen is believed")
	var l backend.Lease
	err := p.run(func() (err error) {
		if l, err = p.lease(owner); err != nil {
			return err
		}
		begun := time.Now()
		err = l.Renew(ctx, ttl)
		if believed && (time.Since(begun) > ttl/2 || err != nil) {
			return nil
		}
		return err
	})
	if err != nil || believed {
		return err
	}
	select {
	case <-l.Lost(): // a frozen process sees the reply only after the thaw, perhaps too late
		return backend.ErrLost
	default:
		return nil
	}
}

func (p *sham) Release(ctx context.Context, owner string) error {
	return p.run(func() error {
		l, err := p.lease(owner)
		if err != nil {
			return err
		}
		err = l.Release(ctx)
		if errors.Is(err, backend.ErrLost) && p.is("release ends a lease that was resumed since its loss") {
			p.server.release(l.(*kit.Life).Key(), owner)
		}
		return err
	})
}

func (p *sham) Lost(_ context.Context, owner string) (lost bool, err error) {
	err = p.run(func() error {
		l, err := p.lease(owner)
		if err != nil {
			return err
		}
		select {
		case <-l.Lost():
			lost = true
		default:
		}
		return nil
	})
	return lost, err
}

func (p *sham) Now(context.Context) (now time.Time, err error) {
	err = p.run(func() error { now = time.Now().Add(p.skew); return nil })
	return now, err
}

func (p *sham) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
	p.wire.Hold(conformance.ToStore)
	p.wire.Hold(conformance.FromStore)
}

func (p *sham) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thawLocked()
	p.wire.Heal()
}

func (p *sham) thawLocked() {
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

func (p *sham) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return
	}
	p.killed = true
	p.wire.kill()
	go p.server.dropPlaces(p.client) // the server notices that the connection has ended
	p.thawLocked()
	dying.Go(func() { _ = p.client.Close() }) // the server does not notice, because the wire is dead
}

// dying waits for the calls of Close on the clients of killed processes.
var dying sync.WaitGroup

// twoSteps sets a lease's TTL to an hour, and then to ttl with a second request. The process may be killed in between.
func (c *client) twoSteps(key, owner string, ttl time.Duration) {
	_ = c.exchange(context.Background(), func() { c.server.renew(key, owner, c, time.Hour) })
	time.Sleep(time.Millisecond) // sleeps: the process may be killed meanwhile
	_ = c.exchange(context.Background(), func() { c.server.renew(key, owner, c, ttl) })
}
