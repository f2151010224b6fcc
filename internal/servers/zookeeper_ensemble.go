package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// ZooKeeperEnsemble starts an ensemble of that many servers, an odd number from 3 on, and returns when all of them serve.
func ZooKeeperEnsemble(t testing.TB, members int) []*Server {
	t.Helper()
	const portsEach = 3 // of the clients, of the quorum, of elections
	g := zooKeeperKind.source(t, members*portsEach)
	ports := make([][]int, members)
	var lines []string
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
	return list
}

// CanEmptyZooKeeper reports whether EmptyZooKeeper works on s.
func CanEmptyZooKeeper(s *Server) bool { return s.Dir != "" }

// EmptyZooKeeper removes the data of a killed member of an ensemble, all but its number.
func EmptyZooKeeper(t testing.TB, s *Server) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(s.Dir, zooKeeperData)); err != nil {
		t.Errorf("servers: empty zookeeper %s: %v", s.Addr, err)
	}
}
