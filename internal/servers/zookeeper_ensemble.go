package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ZooKeeperEnsemble starts an ensemble of that many servers, an odd number of at least 3, and returns when all of them
// serve. more are additional lines of their configuration, as for [ZooKeeper].
func ZooKeeperEnsemble(t testing.TB, members int, more ...string) []*Server {
	t.Helper()
	const portsEach = 3 // for clients, for the quorum, for elections
	g := zooKeeperKind.source(t)
	ports := make([][]int, members)
	lines := slices.Clone(more)
	for i := range ports {
		for range portsEach {
			ports[i] = append(ports[i], g.port(t))
		}
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, ports[i][1], ports[i][2]))
	}
	list := make([]*Server, members)
	for i := range list {
		l := g.zooKeeper(lines, strconv.Itoa(i+1))
		l.ports = ports[i]
		list[i] = g.server(t, l)
		if err := list[i].node.start(); err != nil {
			t.Fatalf("servers: start zookeeper %s: %v", list[i].Addr, err)
		}
		list[i].keep()
	}
	for _, s := range list {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		err := until(ctx, s.node.exited(), func(ctx context.Context) error { return s.ready(ctx, s) })
		cancel()
		if err != nil {
			t.Fatalf("servers: zookeeper ensemble: %s: %v\n%s", s.Addr, err, tail(s.node.log()))
		}
	}
	GatherZooKeeper(t, list)
	return list
}

// electionTimeout limits the time in which an ensemble elects a leader. A member without a leader first retries after
// 200 ms, and doubles the pause each time, up to a minute.
const electionTimeout = 2 * time.Minute

// GatherZooKeeper waits until an ensemble has one leader and all other members are synchronized with it. A leader that
// was frozen notices late that it has lost its role.
func GatherZooKeeper(t testing.TB, list []*Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), electionTimeout)
	defer cancel()
	if err := until(ctx, nil, func(ctx context.Context) error { return zooKeeperGathered(ctx, list) }); err != nil {
		t.Errorf("servers: zookeeper ensemble: %v", err)
	}
}

func zooKeeperGathered(ctx context.Context, list []*Server) error {
	var leader *Server
	for _, s := range list {
		switch mode, err := ZooKeeperMode(ctx, s.Addr); {
		case err != nil:
			return err
		case mode == "leader" && leader == nil:
			leader = s
		case mode != "follower":
			return fmt.Errorf("%s is in mode %q", s.Addr, mode)
		}
	}
	if leader == nil {
		return errors.New("there is no leader")
	}
	text, err := ZooKeeperAsk(ctx, leader.Addr, "mntr")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "zk_synced_followers\t"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			if err == nil && int(n) != len(list)-1 {
				err = fmt.Errorf("%v of %d followers are in step", n, len(list)-1)
			}
			return err
		}
	}
	return fmt.Errorf("%s does not report zk_synced_followers", leader.Addr)
}

// EmptyZooKeeper removes the data of a killed member of an ensemble, except its number.
func EmptyZooKeeper(t testing.TB, s *Server) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(s.Dir, zooKeeperData)); err != nil {
		t.Errorf("servers: empty zookeeper %s: %v", s.Addr, err)
	}
}
