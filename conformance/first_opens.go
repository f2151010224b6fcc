package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// firstClients is how many clients the suite opens at the same moment, as the first ones of the store.
const firstClients = 4

// A firstOpen is the result of one of the first calls of Harness.Open.
type firstOpen struct {
	client backend.Backend
	err    error
	took   time.Duration
}

// openFirst opens the first clients of the store, at the same moment: the store may have to create a table, a folder or
// a file that all clients share. It returns one of the clients, or an error if none could be opened.
func (s *suite) openFirst() (backend.Backend, error) {
	opens := make([]firstOpen, firstClients)
	var all sync.WaitGroup
	for i := range opens {
		all.Go(func() {
			begun := time.Now()
			opens[i].client, opens[i].err = s.open()
			opens[i].took = time.Since(begun)
		})
	}
	all.Wait()
	failed := 0
	var err error
	for _, o := range opens {
		switch busy := o.took > slow || errors.Is(o.err, backend.ErrUnavailable) || kit.IsContextError(o.err); {
		case o.err == nil:
			s.first = append(s.first, o.client)
			continue
		case !busy: // a busy machine does not explain the error
			failed++
		}
		err = o.err
	}
	if len(s.first) == 0 {
		return nil, err
	}
	if failed > 0 {
		s.firstFailure = fmt.Sprintf("of the first %d clients of the store, which were opened at the same moment, %d "+
			"failed: %v", firstClients, failed, err)
	}
	return s.first[0], nil
}

// raceFirst makes the first clients of the store request one key at the same moment. If the store was created several
// times, several of the clients are granted the key.
func (s *suite) raceFirst() {
	key, grants := newKey(), make(chan backend.Lease, len(s.first))
	ttl := (&trial{g: s.g, h: s.h, stretch: 1}).long()
	var all sync.WaitGroup
	for _, b := range s.first {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, soon)
			defer cancel()
			_ = bounded(2*soon, func() error { // other checks test the errors
				l, err := b.Acquire(ctx, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl})
				if err == nil {
					grants <- l
				}
				return nil
			})
		})
	}
	all.Wait()
	live := 0
	var leases []backend.Lease
	for range len(grants) { // a call that hangs may still add one
		l := <-grants
		if leases = append(leases, l); time.Now().Before(l.Deadline()) {
			live++
		}
	}
	for _, l := range leases {
		_ = bounded(2*soon, func() error { return l.Release(s.ctx) })
	}
	if live > 1 {
		s.firstDouble = fmt.Sprintf("%d of the first %d clients of the store, which were opened at the same moment, were "+
			"granted one key", live, len(s.first))
	}
}

// closeFirst closes the first clients, except the one that openFirst has returned. Checks report a Close that fails.
func (s *suite) closeFirst() {
	var all sync.WaitGroup
	for _, b := range s.first[1:] {
		all.Go(func() { _ = s.closes(b) })
	}
	all.Wait()
}

// opensAtOnce opens clients at the same moment, for example when the store has lost what its clients share. Of their
// attempts at one key, at most one is granted.
func (t *trial) opensAtOnce(when string) {
	clients := make([]backend.Backend, firstClients)
	t.atOnce(len(clients), func(i int) { clients[i] = t.dial() })
	key, grants := t.newKey(), make([]*grant, len(clients))
	t.atOnce(len(clients), func(i int) { grants[i], _ = t.attempt(clients[i], key, t.long()) })
	granted := 0
	for _, g := range grants {
		if g != nil {
			granted++
		}
	}
	if granted > 1 {
		t.doubleGrant("%d of %d clients that were opened at the same moment, %s, were granted one key", granted,
			len(clients), when)
	}
	for _, g := range grants {
		if g != nil {
			t.release(g)
		}
	}
}
