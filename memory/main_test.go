package memory_test

import (
	"context"
	"testing"
	"time"

	"github.com/anylock/lock/internal/leak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func request(key string, ttl time.Duration, wait bool) backend.Request {
	return backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: wait}
}

func client(t *testing.T, s *memory.Store) *memory.Backend {
	t.Helper()
	b := s.Client()
	t.Cleanup(func() { b.Close() })
	return b
}

func try(b backend.Backend, key string, ttl time.Duration) (backend.Lease, error) {
	return b.Acquire(context.Background(), request(key, ttl, false))
}

func mustTry(t *testing.T, b backend.Backend, key string, ttl time.Duration) backend.Lease {
	t.Helper()
	l, err := try(b, key, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
