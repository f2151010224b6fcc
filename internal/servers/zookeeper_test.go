package servers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/anylock/lock/internal/storetest"
)

func modeOf(t *testing.T, s *Server) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	mode, err := ZooKeeperMode(ctx, s.Addr)
	if err != nil {
		t.Fatalf("mode of %s: %v", s.Addr, err)
	}
	return mode
}

func TestZooKeeper(t *testing.T) {
	s := ZooKeeper(t)
	if mode := modeOf(t, s); mode != "standalone" {
		t.Errorf("mode %q", mode)
	}
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if mode, err := ZooKeeperMode(ctx, s.Addr); err == nil {
		t.Errorf("a frozen server answers %q", mode)
	}
	s.Thaw()
	modeOf(t, s)
	s.Kill()
	s.Start()
	modeOf(t, s)
}

func TestZooKeeperEnsemble(t *testing.T) {
	storetest.Long(t, "an ensemble")
	list := ZooKeeperEnsemble(t, 3)
	leader := slices.IndexFunc(list, func(s *Server) bool { return modeOf(t, s) == "leader" })
	if leader < 0 {
		t.Fatal("no leader")
	}
	old := list[leader]
	old.Kill()
	begun := time.Now()
	other := list[(leader+1)%len(list)]
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
	defer cancel()
	if err := until(ctx, nil, func(ctx context.Context) error { return other.ready(ctx, other) }); err != nil {
		t.Fatal(err)
	}
	t.Logf("serves again after %v", time.Since(begun))
	EmptyZooKeeper(t, old)
	if _, err := os.Stat(filepath.Join(old.Dir, "version-2")); err == nil {
		t.Error("its data is still there")
	}
	old.Start()
	if mode := modeOf(t, old); mode != "follower" {
		t.Errorf("an emptied member is %q", mode)
	}
}

// GatherZooKeeper waits until the ensemble has one leader again. A frozen leader that continues believes that it still
// leads, beside the newly elected leader.
func TestGatherZooKeeper(t *testing.T) {
	storetest.Long(t, "an ensemble, and an election")
	list := ZooKeeperEnsemble(t, 3)
	GatherZooKeeper(t, list)
	leads := func(list []*Server) *Server {
		i := slices.IndexFunc(list, func(s *Server) bool { return modeOf(t, s) == "leader" })
		if i < 0 {
			return nil
		}
		return list[i]
	}
	frozen := leads(list)
	if frozen == nil {
		t.Fatal("none leads")
	}
	others := slices.DeleteFunc(slices.Clone(list), func(s *Server) bool { return s == frozen })
	frozen.Freeze()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
	defer cancel()
	if err := until(ctx, nil, func(ctx context.Context) error {
		for _, s := range others {
			if mode, err := ZooKeeperMode(ctx, s.Addr); err != nil || mode == "leader" {
				return err
			}
		}
		return errors.New("no leader")
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("another leads after %v", time.Since(begun))
	frozen.Thaw()
	begun = time.Now()
	GatherZooKeeper(t, list)
	t.Logf("in step again after %v", time.Since(begun))
	if mode := modeOf(t, frozen); mode != "follower" {
		t.Errorf("the leader that was frozen is %q", mode)
	}
	if leads(others) == nil {
		t.Error("none of the others leads")
	}
}

// A server with TLS serves only clients that have a certificate.
func TestZooKeeperTLS(t *testing.T) {
	s := ZooKeeperTLS(t)
	servesCertificates(t, s, "srvr", "Zookeeper version")
}
