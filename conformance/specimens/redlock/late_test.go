package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

// A held is a hook that keeps back the requests for a key until it is let go.
type held struct{ asked, let chan struct{} }

func (h held) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h held) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h held) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); args[0] == "evalsha" && args[1] == takeScript.Hash() {
			h.asked <- struct{}{}
			<-h.let
		}
		return next(ctx, cmd)
	}
}

// TestLateVotesAreGivenBack holds back the requests to two of three nodes until the cancelled attempt has removed what
// it has of the third, and a while longer.
func TestLateVotesAreGivenBack(t *testing.T) {
	_, addrs := start(t, 3)
	const patience = time.Minute // as long as the requests are held back, and longer
	b, err := open(func(s *store) { s.patience = patience })(t.Context(), addrs...)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s := b.(*store)
	for _, n := range s.nodes { // so that scripts are known
		if err := takeScript.Load(t.Context(), n).Err(); err != nil {
			t.Fatal(err)
		}
	}
	h := held{asked: make(chan struct{}), let: make(chan struct{})}
	let := sync.OnceFunc(func() { close(h.let) })
	defer let() // or Close would wait for them
	s.nodes[1].AddHook(h)
	s.nodes[2].AddHook(h)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, backend.Request{Key: "k", Owner: "o", TTL: time.Minute})
		ended <- err
	}()
	<-h.asked
	<-h.asked
	for n, err := int64(0), error(nil); n == 0; n, err = s.nodes[0].Exists(t.Context(), name("k")).Result() {
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("Acquire: %v, want context.Canceled", err)
	}
	time.Sleep(time.Second) // sleeps: a clean-up that ends meanwhile has ended too soon
	let()
	deadline := time.Now().Add(10 * time.Second)
	for quiet := 0; quiet < 20; time.Sleep(10 * time.Millisecond) {
		quiet++
		for i, n := range s.nodes {
			if left, err := n.Exists(t.Context(), name("k")).Result(); err != nil {
				t.Fatal(err)
			} else if left > 0 {
				quiet = 0
				if time.Now().After(deadline) {
					t.Fatalf("node %d keeps the vote of a cancelled attempt", i)
				}
			}
		}
	}
}
