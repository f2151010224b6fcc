package memcached

import (
	"context"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/specimens"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestMain(m *testing.M) {
	specimens.Main(Collection)
	goleak.VerifyTestMain(m)
}

func TestSpecimens(t *testing.T) {
	storetest.Long(t, "each specimen and its twin go through the checks that distinguish them")
	specimens.Prove(t, Collection, near, specimens.For("get-compare-delete", far))
}

func near(t *testing.T, open specimens.Open) conformance.Harness {
	s := servers.Memcached(t)
	return conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, s.Addr) },
		Evict: func(_ context.Context, key string) error {
			c := memcache.New(s.Addr)
			c.Timeout = storetest.Soon
			defer c.Close()
			return c.Delete(name(key))
		},
	}
}

// far has links that begin to hold back requests one request late: what comes to the server long after its time is the
// second command of a release.
func far(t *testing.T, open specimens.Open) conformance.Harness {
	addr := servers.Memcached(t).Addr
	return conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, addr) },
		Linked: func(ctx context.Context) (backend.Backend, conformance.Link, error) {
			l, err := link.New(addr)
			if err != nil {
				return nil, nil, err
			}
			b, err := open(ctx, l.Addrs()...)
			return b, tardy{l}, err
		},
	}
}

type tardy struct{ *link.Link }

func (l tardy) Hold(d conformance.Direction) {
	const answer = 150 * time.Millisecond
	l.Delay(conformance.FromStore, answer)
	time.AfterFunc(answer/2, func() { l.Link.Hold(d) })
}
