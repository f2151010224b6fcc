package postgres

import (
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
)

// A connection that is at rest, and watched, does not hold Close up until its grace is over.
func TestCloseWaitsForNobodyAtRest(t *testing.T) {
	b := opened(t, servers.Postgres(t).PostgresURL())
	held := acquire(t, b, req("held", time.Minute))
	release(t, acquire(t, b, req("released", time.Minute)))
	watched := func() (n int) {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		for s := range b.pool.all {
			if s.isWatched() {
				n++
			}
		}
		return n
	}
	for end := time.Now().Add(10 * time.Second); watched() < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections at rest are watched, want 2", watched())
		}
	}
	begun := time.Now()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > closeGrace*9/10 {
		t.Errorf("Close took %v", took)
	}
	<-held.Lost()
}
