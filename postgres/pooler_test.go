package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
)

// A pooler in session pooling gives the session of a broken connection to somebody else, who may be granted the key: a release
// of the lease that was on it leaves that session alone.
func TestStaleReleaseThroughPooler(t *testing.T) {
	t.Parallel()
	s := shared(t)
	url := s.via(servers.PgBouncer(t, s.Server, "session").Addr)
	a, b := opened(t, url), opened(t, url)
	c := dialed(t, s.PostgresURL())
	unwatch(a)
	stale := acquire(t, a, req("k", time.Minute))
	acquire(t, b, req("other", time.Minute)) // by the only connection of b
	a.cut()
	until(t, soon, "the lock is given up by the pooler", func() bool { return locks(t, c) == 1 })
	l := acquire(t, b, req("k", time.Minute))
	_ = stale.Release(context.Background()) // which cannot know
	time.Sleep(500 * time.Millisecond)      // sleeps: the period in which the release could be repeated
	if err := l.Renew(context.Background(), time.Minute); err != nil {
		t.Error("the new holder: ", err)
	}
}
