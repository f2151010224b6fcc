package etcd

import (
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
)

// A signed log-in ends at its time, used or not. Servers before 3.5 then refuse even to log in anew who still sends it.
func TestSignedLogInRunsOut(t *testing.T) {
	t.Parallel()
	s := servers.EtcdJWT(t, "worker", "secret", "locks/", 2*time.Second)
	b := opened(t, "etcd://worker:secret@"+s.Addr+"/locks")
	l := acquire(t, b, req("k", 20*time.Second))
	done := queueUp(t, b, waiting("k", 20*time.Second), 1)
	for range 3 {
		time.Sleep(3 * time.Second) // sleeps: a log-in is valid for 2 s, used or not
		if err := l.Renew(t.Context(), 20*time.Second); err != nil {
			t.Errorf("renewal with an old log-in: %v", err)
		}
		o, err := b.Acquire(t.Context(), req("other", 20*time.Second))
		if err != nil {
			t.Errorf("acquire with an old log-in: %v", err)
			continue
		}
		release(t, o)
	}
	release(t, l)
	release(t, granted(t, done, soon).Lease)
}
