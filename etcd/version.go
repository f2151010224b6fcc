package etcd

import (
	"context"
	"strconv"
	"strings"
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
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) != len(v) {
		return v, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
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

// mostFlawed asks the servers in reach for their versions, and returns the one with most flaws. One that does not tell, or does not answer
// soon after another one, counts as sound: the URL names more than are up at any time.
func (b *Backend) mostFlawed(ctx context.Context, client *clientv3.Client) (version string, err error) {
	endpoints := client.Endpoints()
	type answer struct {
		came    bool
		version string
	}
	answers := make(chan answer, len(endpoints))
	sctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	for _, e := range endpoints {
		go func() {
			if resp, err := client.Status(sctx, e); err == nil {
				answers <- answer{true, resp.Version}
				return
			}
			answers <- answer{}
		}()
	}
	for range endpoints {
		a := <-answers
		if len(flawsOf(a.version)) >= len(flawsOf(version)) {
			version = a.version
		}
		if a.came {
			defer time.AfterFunc(b.options.Timeout/attemptShare, cancel).Stop()
		}
	}
	return version, backend.ContextError(ctx, nil)
}
