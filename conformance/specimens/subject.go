package specimens

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/process"
)

// A subject is what a run is about: a specimen, or the twin.
type subject struct {
	name string // empty: the twin
	open Open

	mu      sync.Mutex
	addrs   []string   // of the servers, as the harness has them
	network *link.Link // between them and other processes
}

// harness has the harness made for the subject, with links and processes where it has none of its own.
func (s *subject) harness(t *testing.T, maker HarnessMaker) conformance.Harness {
	h := maker(t, func(ctx context.Context, addrs ...string) (backend.Backend, error) {
		s.mu.Lock()
		s.addrs = addrs
		s.mu.Unlock()
		return s.open(ctx, addrs...)
	})
	if h.Linked == nil {
		h.Linked = func(ctx context.Context) (backend.Backend, conformance.Link, error) {
			return link.Linked(s.servers(), func(ctx context.Context, addrs []string) (backend.Backend, error) {
				return s.open(ctx, addrs...)
			})(ctx)
		}
	}
	if h.Process == nil && process.Self("") != nil {
		h.Process = func(ctx context.Context, skew time.Duration) (conformance.Process, error) {
			addrs, err := s.far(t)
			if err != nil {
				return nil, err
			}
			arg, err := json.Marshal(processArg{s.name, addrs})
			if err != nil {
				return nil, err
			}
			return process.Self(string(arg))(ctx, skew)
		}
	}
	return h
}

// far returns addresses by which other processes reach the servers as from another host. On one host what may happen
// between two commands happens too seldom.
func (s *subject) far(t *testing.T) ([]string, error) {
	const distance = 4 * time.Millisecond
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.network == nil {
		l, err := link.New(s.addrs...)
		if err != nil {
			return nil, err
		}
		t.Cleanup(l.Close)
		l.Delay(conformance.ToStore, distance)
		l.Delay(conformance.FromStore, distance)
		s.network = l
	}
	return s.network.Addrs(), nil
}

// servers are known once a client has been opened, which is what the suite does first.
func (s *subject) servers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addrs
}

// processArg names the store that another process opens.
type processArg struct {
	Name  string
	Addrs []string
}

// Main lets the tests' program be another process with a client of a specimen. A package's TestMain calls it first.
func Main(c Collection) {
	process.Main(func(ctx context.Context, arg string) (backend.Backend, error) {
		var a processArg
		if err := json.Unmarshal([]byte(arg), &a); err != nil {
			return nil, err
		}
		if a.Name == "" {
			return c.Twin(ctx, a.Addrs...)
		}
		for _, s := range c.Specimens {
			if s.Name == a.Name {
				return s.Open(ctx, a.Addrs...)
			}
		}
		return nil, fmt.Errorf("there is no specimen %q", a.Name)
	})
}
