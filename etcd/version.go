package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

// A flaw is a fault of etcd's that makes a promise of ours weaker.
type flaw struct {
	what  string
	fixed map[int]int // the patch release of each minor one from which on it is mended; newer minor ones never had it
}

var flaws = []flaw{
	{"a leader that was paused may end leases that its successor has renewed (issue 15247)", map[int]int{4: 31, 5: 13}},
	{"a renewal may be answered although the lease is being ended (pull request 20590)", map[int]int{4: 38, 5: 23, 6: 5}},
	{"reads may be old after a pause of a server (issue 20418)", map[int]int{4: 42, 5: 28, 6: 9}},
}

// has reports whether etcd 3.minor.patch has the flaw.
func (f flaw) has(minor, patch int) bool {
	const oldest = 4 // which we know
	fixed, ok := f.fixed[minor]
	return ok && patch < fixed || minor < oldest
}

// flawsOf tells the flaws of a version. One that cannot be parsed has none.
func flawsOf(version string) (list []string) {
	v, ok := numbers(version)
	for _, f := range flaws {
		if ok && (v[0] < 3 || v[0] == 3 && f.has(v[1], v[2])) {
			list = append(list, f.what)
		}
	}
	return list
}

func numbers(version string) (v [3]int, ok bool) {
	_, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return v, err == nil
}

// byWallClock reports whether a version compares times of the wall clock when it looks for leases that have run out (issue 12291), as all
// before 3.5 do.
func byWallClock(version string) bool {
	v, ok := numbers(version)
	return ok && (v[0] < 3 || v[0] == 3 && v[1] < 5)
}

// weakened is g as servers of a version keep it.
func weakened(g backend.Guarantees, version string) backend.Guarantees {
	if list := flawsOf(version); len(list) > 0 {
		g.EarlyLoss = "etcd " + version + " is old: " + strings.Join(list, "; ")
		g.Consistency = backend.BestEffort
	}
	if byWallClock(version) {
		g.EnforcedBy = "wall clock of etcd's leader"
	}
	return g
}

// mostFlawed asks the servers for their versions, and returns the one with most flaws. One that does not tell counts as sound: the URL
// names more than are up at any time.
func (b *Backend) mostFlawed(ctx context.Context) (version string) {
	for _, s := range b.statuses(ctx) {
		if s.err == nil && len(flawsOf(s.Version)) >= len(flawsOf(version)) {
			version = s.Version
		}
	}
	return version
}

// A serverStatus is what one server says of itself, or why it does not.
type serverStatus struct {
	*clientv3.StatusResponse
	endpoint string
	err      error
}

// statuses asks all servers of the URL. It waits for none that does not answer soon after another one.
func (b *Backend) statuses(ctx context.Context) []serverStatus {
	list := make([]serverStatus, len(b.client.Endpoints()))
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	patience := b.options.Timeout / attemptShare
	answered := sync.OnceFunc(func() { time.AfterFunc(patience, cancel) })
	var asked sync.WaitGroup
	for i, e := range b.client.Endpoints() {
		asked.Go(func() {
			resp, err := b.client.Status(ctx, e)
			if err == nil {
				answered()
			} else if ctx.Err() != nil {
				err = noneWithin(patience, err)
			}
			list[i] = serverStatus{resp, e, err}
		})
	}
	asked.Wait()
	return list
}
