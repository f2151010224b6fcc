package memcached

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// Close waits for an unanswered release only for its grace, and not for the request timeout.
func TestCloseCutsOffReleases(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient)
	l := acquire(t, b, req("k", time.Minute))
	sent := p.once("gets", pass)
	s.Freeze()
	defer s.Thaw()
	released := make(chan error, 1)
	go func() { released <- l.Release(context.Background()) }()
	<-sent
	begun := time.Now()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > time.Second+soon {
		t.Errorf("Close took %v", took)
	}
	if err := <-released; !errors.Is(err, backend.ErrClosed) {
		t.Errorf("the release: %v, want ErrClosed", err)
	}
}
