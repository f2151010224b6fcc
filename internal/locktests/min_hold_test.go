package locktests

import (
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/servers"
	_ "github.com/anylock/lock/memory"
	"github.com/anylock/lock/pair"
)

// A key is not free before its minimum hold has passed since the call of Acquire, by the holder's clock.
func TestMinHoldIsNotShortOnStores(t *testing.T) {
	const hold = 2500 * time.Millisecond
	check := func(t *testing.T, holder, other *lock.Locker) {
		t.Parallel()
		begun := time.Now()
		lease, err := holder.Acquire(t.Context(), "k", lock.WithMinHold(hold))
		if err != nil {
			t.Fatal(err)
		}
		granted := time.Now()
		release(t, lease)
		next, err := other.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		free := time.Now()
		if d := free.Sub(begun); d < hold {
			t.Errorf("the key was free %v after the call of Acquire, %v too early", d, hold-d)
		}
		if d := free.Sub(granted); d > hold+hold/20+holder.Guarantees().MaxLate+5*time.Second {
			t.Errorf("the key was taken for %v", d)
		}
		t.Logf("free after %v", free.Sub(begun))
		release(t, next)
	}
	onStores(t, func(t *testing.T, s sharedStore) {
		url, _ := s.start(t)
		check(t, open(t, url), open(t, url))
	})
	t.Run("memory", func(t *testing.T) {
		l := open(t, "memory:")
		check(t, l, l)
	})
	t.Run("pair", func(t *testing.T) {
		_, zk := servers.Store(t, "zookeeper")
		url := pair.URL("zookeeper://"+zk[0].Addr, "file://"+t.TempDir()+"?lock_token_base=1000000", 1000000)
		check(t, open(t, url), open(t, url))
	})
}
