// Package peers measures other lock libraries together with ours, with the scenarios of package bench. It is a separate
// module, so that the library does not have its dependencies.
//
// Each peer has the best reasonable settings, and a line that explains them. None of the peers has fencing tokens, but
// the revisions of etcd and ZooKeeper, and pglock's record versions, can serve as tokens.
package peers

import (
	"context"
	_ "embed" // go.mod
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/anylock/lock/bench"
)

//go:embed go.mod
var requirements string

// version returns the version of a module that this module requires. (The build information of a test program has no
// versions.)
func version(module string) string {
	for line := range strings.Lines(requirements) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == module {
			return f[1]
		}
	}
	return "(unknown version)"
}

// Open opens the peer that child names, in a process that holds a key. child is the peer's name, a space, and the
// address of its server.
func Open(child string) (bench.Store, error) {
	name, addr, _ := strings.Cut(child, " ")
	for _, peer := range All {
		if s := peer(addr); s.Name == name {
			return s, nil
		}
	}
	return bench.URL(context.Background(), child)
}

// All creates each peer for a server at an address: host and port, or the URL of a Postgres.
var All = []func(addr string) bench.Store{
	Bare, Redsync, Redislock, Rueidislock, EtcdMutex, ZKLock, PGLock, BareAdvisory, BareUpsert, RiverLeader,
}

// renewing calls renew three times per ttl until it is stopped. It adds the cost of a library that leaves renewal to
// its user, implemented as in the libraries' examples: with a goroutine and a ticker for each lock.
func renewing(ttl time.Duration, renew func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		const times = 3
		tick := time.NewTicker(ttl / times)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				renew(ctx)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// A released is a function as a lease.
type released func(ctx context.Context) error

func (r released) Release(ctx context.Context) error { return r(ctx) }

func about(module, settings string) string {
	name := module[strings.LastIndexByte(module, '/')+1:]
	if strings.HasPrefix(name, "v") && len(name) < 4 {
		name = strings.Split(module, "/")[len(strings.Split(module, "/"))-2]
	}
	return fmt.Sprintf("%s %s: %s", name, version(module), settings)
}
