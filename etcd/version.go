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

// A flaw is a bug of etcd that weakens a guarantee.
type flaw struct {
	what  string
	fixed map[int]int // by minor version: the patch release with the fix; newer minor versions never had the flaw
}

var flaws = []flaw{
	{"a leader that was paused may end leases that its successor has renewed (issue 15247)", map[int]int{4: 31, 5: 13}},
	{"a renewal may be answered although the lease is being ended (pull request 20590)", map[int]int{4: 38, 5: 23, 6: 5}},
	{"reads may be old after a pause of a server (issue 20418)", map[int]int{4: 42, 5: 28, 6: 9}},
}

// flawsOf returns the flaws of a version. It returns none if the version cannot be parsed.
func flawsOf(version string) (list []string) {
	v, ok := parseVersion(version)
	unlisted := v[0] < 3 || v[0] == 3 && v[1] < 4 // versions before 3.4 have every flaw
	for _, f := range flaws {
		fixed, listed := f.fixed[v[1]]
		if ok && (unlisted || v[0] == 3 && listed && v[2] < fixed) {
			list = append(list, f.what)
		}
	}
	return list
}

func parseVersion(version string) (v [3]int, ok bool) {
	_, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return v, err == nil
}

// byWallClock reports whether a version uses the wall clock to find expired leases (issue 12291). All versions before
// 3.5 do.
func byWallClock(version string) bool {
	v, ok := parseVersion(version)
	return ok && (v[0] < 3 || v[0] == 3 && v[1] < 5)
}

// weakened returns g, weakened by the flaws of servers with these versions. EarlyLoss names the version with the most.
func weakened(g backend.Guarantees, versions ...string) backend.Guarantees {
	most := 0
	for _, v := range versions {
		if list := flawsOf(v); len(list) > most {
			most = len(list)
			g.EarlyLoss = "etcd " + v + " is old: " + strings.Join(list, "; ")
			g.Consistency = backend.BestEffort
		}
		if byWallClock(v) {
			g.EnforcedBy = "wall clock of etcd's leader"
		}
	}
	return g
}

// readVersions returns g, weakened by the flaws of the servers' versions. A server that does not respond counts as
// sound, because the URL may name servers that are down; but if none responds, readVersions returns an error. A server
// may refuse to report its version to a user without the role root; such a server counts as old.
func (b *Backend) readVersions(ctx context.Context, g backend.Guarantees) (backend.Guarantees, error) {
	var versions []string
	var silent, refused error
	for _, s := range b.statuses(ctx) {
		switch {
		case s.err == nil:
			versions = append(versions, s.Version)
		case mayHaveRun(s.err):
			silent = s.err
		default:
			refused = s.err
		}
	}
	g = weakened(g, versions...)
	switch {
	case refused != nil && g.EarlyLoss == "":
		g.EarlyLoss = fmt.Sprintf("etcd may be old: a server does not report its version (%v)", refused)
		g.Consistency = backend.BestEffort
	case refused == nil && len(versions) == 0:
		return g, silent
	}
	return g, nil
}

// A serverStatus is the status of one server, or the reason why the status is unknown.
type serverStatus struct {
	*clientv3.StatusResponse
	endpoint string
	err      error
}

// statuses returns the status of each endpoint. After the first reply, it waits only a quarter of Options.Timeout for
// the others.
func (b *Backend) statuses(ctx context.Context) []serverStatus {
	endpoints := b.client.Endpoints() // once, because an application may change them meanwhile
	list := make([]serverStatus, len(endpoints))
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	patience := b.options.Timeout / attemptsPerTimeout
	var requests sync.WaitGroup
	for i, e := range endpoints {
		requests.Go(func() {
			resp, err := b.client.Status(ctx, e)
			if err == nil {
				time.AfterFunc(patience, cancel) // the timer of the first reply is the first to run
			} else if ctx.Err() != nil {
				err = noAnswerWithin(patience, err)
			}
			list[i] = serverStatus{resp, e, err}
		})
	}
	requests.Wait()
	return list
}
