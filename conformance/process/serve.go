package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// Main serves the suite and then exits, if Self has started the program; otherwise it returns at once. Call it first in
// TestMain. open gets the argument of Self.
func Main(open func(ctx context.Context, arg string) (backend.Backend, error)) {
	arg, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	out := os.Stdout
	os.Stdout = os.Stderr // other output must not mix with the replies
	serve(open, arg, os.Stdin, out)
	os.Exit(0) // no more requests: as after a kill, the client is not closed and no lease is released
}

// A server serves the parent's requests, in the child process.
type server struct {
	client backend.Backend

	mu     sync.Mutex
	out    *json.Encoder
	leases map[string]backend.Lease // by owner
}

// serve replies to requests until there are no more.
func serve(
	open func(ctx context.Context, arg string) (backend.Backend, error), arg string, in io.Reader, out io.Writer,
) {
	s := &server{out: json.NewEncoder(out), leases: make(map[string]backend.Lease)}
	opened := make(chan bool, 1)
	go func() {
		var (
			a   answer
			err error
		)
		if s.client, err = open(context.Background(), arg); err != nil {
			a.setError(err)
		}
		s.reply(a)
		opened <- err == nil
	}()
	requests := json.NewDecoder(in)
	for {
		var r request
		if err := requests.Decode(&r); err != nil { // also while the client is opening
			return
		}
		if opened != nil && !<-opened {
			return
		}
		opened = nil
		go s.serve(r)
	}
}

// reply sends one reply.
func (s *server) reply(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(a) // an error means that the parent has ended, which also ends the input
}

func (s *server) serve(r request) {
	a := answer{ID: r.ID}
	switch r.Op {
	case opAcquire:
		s.reply(answer{ID: r.ID, Begun: true})
		a.Token, a.Left = s.acquire(&a, r)
	case opNow:
		a.Now = time.Now()
	default:
		s.useLease(&a, r)
	}
	s.reply(a)
}

func (s *server) acquire(a *answer, r request) (token uint64, left time.Duration) {
	owner := string(r.Owner)
	l, err := s.client.Acquire(context.Background(),
		backend.Request{Key: string(r.Key), Owner: owner, TTL: r.TTL, Wait: r.Wait, Shared: r.Shared})
	if err != nil {
		a.setError(err)
		return 0, 0
	}
	s.mu.Lock()
	s.leases[owner] = l
	s.mu.Unlock()
	a.Clock = sharedClock()
	return l.Token(), time.Until(l.Deadline())
}

// useLease performs the operation of r on a lease.
func (s *server) useLease(a *answer, r request) {
	s.mu.Lock()
	l := s.leases[string(r.Owner)]
	s.mu.Unlock()
	if l == nil {
		a.setError(fmt.Errorf("%w: %s of an owner without a lease", backend.ErrInvalid, r.Op))
		return
	}
	switch r.Op {
	case opRenew:
		a.setError(l.Renew(context.Background(), r.TTL))
	case opRelease:
		a.setError(l.Release(context.Background()))
	case opLost:
		select {
		case <-l.Lost():
			a.Lost = true
		default:
		}
	default:
		a.setError(fmt.Errorf("%w: request %q", backend.ErrInvalid, r.Op))
	}
}
