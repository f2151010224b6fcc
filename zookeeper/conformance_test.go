package zookeeper

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeper(t)
	admin := opened(t, "zookeeper://"+s.Addr)
	// A server's restart, which takes seconds on a busy machine, must not outlast a session.
	url := "zookeeper://" + s.Addr + "?session_timeout=6s"
	storetest.Main(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open:         func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, url) },
			Linked:       link.URL(url),
			Process:      process.Self(url),
			Evict:        func(ctx context.Context, key string) error { return evict(ctx, admin, key) },
			Freeze:       s.Freeze,
			Thaw:         s.Thaw,
			Restart:      func() { s.Kill(); s.Start() },
			RestartEmpty: s.RestartEmpty(),
			StepClock:    s.StepClock(),
			Cut:          cut,
			Footprint:    func() (int64, error) { return footprint(s.Addr) },
		}
	})
}

// footprint returns the number of nodes on a server.
func footprint(addr string) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, err := servers.ZooKeeperAsk(ctx, addr, "mntr")
	if err != nil {
		return 0, err
	}
	_, count, found := strings.Cut(text, "zk_znode_count\t")
	if !found {
		return 0, errors.New("the server does not tell how many nodes it has")
	}
	count, _, _ = strings.Cut(count, "\n")
	return strconv.ParseInt(count, 10, 64)
}

func TestConformanceEnsemble(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "the suite once more, on an ensemble")
	url := "zookeeper://" + addresses(servers.ZooKeeperEnsemble(t, 3))
	admin := opened(t, url)
	conformance.RunCore(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) {
				return openURL(ctx, url+"?session_timeout=6s")
			},
			Evict: func(ctx context.Context, key string) error { return evict(ctx, admin, key) },
			Cut:   cut,
		}
	}, "cuts")
}

// longSessions makes an ensemble grant sessions of up to 40 s, as with the usual tick. Leases then outlive an outage of
// MaxSilence, which is 33 s.
const longSessions = "maxSessionTimeout=40000"

// Leases outlive the failure of members of an ensemble. The sessions are longer than in the rest of the suite, which
// often waits for the end of a session.
func TestEnsembleMembersFail(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "members of an ensemble fail")
	list := servers.ZooKeeperEnsemble(t, 3, longSessions)
	url := "zookeeper://" + addresses(list)
	gather := func() { servers.GatherZooKeeper(t, list) }
	var members []conformance.Member
	for _, s := range list {
		members = append(members, conformance.Member{
			Freeze: s.Freeze, Thaw: s.Thaw, Stop: s.Kill, Start: s.Start,
			StartEmpty: func() { servers.EmptyZooKeeper(t, s); s.Start() },
		})
	}
	h := conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) {
			gather() // opening does not wait for an election
			return openURL(ctx, url)
		},
		Members: members,
		Gather:  gather,
		// A failed election is detected after 2 s (syncLimit) or 5 s (initLimit). The next election has taken 4 s, because
		// the members' own pauses between messages grow. On a busy machine, elections have taken 10 s.
		Outage: 30 * time.Second,
	}
	results, err := conformance.Execute(t.Context(), h,
		conformance.Options{Run: regexp.MustCompile("MemberLosesNothing$")})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) == 0 {
		t.Error("no check was run")
	}
	for _, r := range results {
		t.Logf("%s: %s after %v\n%s", r.Name, r.Status, r.Duration, r.Output)
		if r.Status == conformance.Fail || r.Status == conformance.NoVerdict {
			t.Errorf("%s: %s: %s", r.Name, r.Status, r.Broken)
		}
	}
}

// openURL opens a store as package lock does.
func openURL(ctx context.Context, url string) (*Backend, error) {
	b, _, err := driver.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return b.(*Backend), nil
}

// evict deletes the nodes of all holders of a key, through the client b.
func evict(ctx context.Context, b *Backend, key string) error {
	s, err := b.checkOutAny(b.limits.longest)
	if err != nil {
		return err
	}
	defer b.checkIn(s)
	names, err := s.currentChildren(ctx, b.dir(key))
	if err != nil {
		return err
	}
	holders := holdersOf(queueOf(names))
	if len(holders) == 0 {
		return errors.New("nobody holds the key")
	}
	for _, p := range holders {
		if _, err := s.delete(ctx, b.dir(key)+"/"+p.name); err != nil {
			return err
		}
	}
	return nil
}

// cut breaks every connection of a client.
func cut(c backend.Backend) {
	b := c.(*Backend)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		s.mu.Lock()
		if s.connection != nil {
			_ = s.connection.Conn.Close()
		}
		s.mu.Unlock()
	}
}

func addresses(list []*servers.Server) string {
	addrs := make([]string, len(list))
	for i, s := range list {
		addrs[i] = s.Addr
	}
	return strings.Join(addrs, ",")
}

const (
	soon   = 5 * time.Second
	aWhile = 400 * time.Millisecond // long enough for a late request to cause harm
)
