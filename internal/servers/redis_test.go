package servers

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/internal/storetest"
)

// ask sends one command to s, and fails the test after an error.
func ask(t *testing.T, s *Server, args ...string) any {
	t.Helper()
	reply, err := resp{}.ask(t.Context(), s.Addr, args...)
	if err != nil {
		t.Fatalf("%s on %s: %v", strings.Join(args, " "), s.Addr, err)
	}
	return reply
}

func TestRedisKillLosesAndStartAnswers(t *testing.T) {
	s := Redis(t)
	ask(t, s, "SET", "k", "v")
	s.Kill()
	if _, err := (resp{}).ask(t.Context(), s.Addr, "PING"); err == nil {
		t.Error("a killed server answers")
	}
	s.Kill() // a second Kill does nothing
	s.Start()
	if got := ask(t, s, "GET", "k"); got != nil {
		t.Errorf("after a restart without persistence k is %v", got)
	}
}

func TestRedisRestartKeepsDataWhenAsked(t *testing.T) {
	s := Redis(t, "--appendonly", "yes")
	ask(t, s, "SET", "k", "v")
	s.Kill()
	s.Start()
	if got := ask(t, s, "GET", "k"); got != "v" {
		t.Errorf("after a restart k is %v", got)
	}
}

func TestRedisFreezeAndThaw(t *testing.T) {
	s := Redis(t)
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := (resp{}).ask(ctx, s.Addr, "PING"); err == nil {
		t.Error("a frozen server answers")
	}
	s.Thaw()
	ask(t, s, "PING")
	s.Freeze()
	s.Kill() // a frozen server can be killed
	s.Start()
	ask(t, s, "PING")
}

func TestRedisCluster(t *testing.T) {
	storetest.Long(t, "a cluster")
	nodes := RedisCluster(t, 3)
	for _, s := range nodes {
		slots, _ := ask(t, s, "CLUSTER", "SLOTS").([]any)
		if len(slots) != len(nodes) {
			t.Errorf("%s knows %d ranges of slots", s.Addr, len(slots))
		}
	}
	nodes[2].Kill()
	nodes[2].Start() // Start waits until the node has joined the cluster again
	ask(t, nodes[2], "CLUSTER", "INFO")
}

func TestRedisSentinelFailsOver(t *testing.T) {
	storetest.Long(t, "sentinels, and a failover")
	set := RedisSentinel(t)
	set.Master.Kill()
	// A sentinel that has stalled for two seconds does nothing for thirty seconds. A failed election is repeated after
	// six.
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	start := time.Now()
	for {
		addr, _ := ask(t, set.Sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", set.Name).([]any)
		if len(addr) == 2 && addr[1] == port(set.Replica.Addr) {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no failover: the master is %v", addr)
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Logf("failed over after %v", time.Since(start))
	set.Master.Start()
}

func TestRedisTLS(t *testing.T) {
	s := RedisTLS(t)
	reply, err := resp{tls: s.Config()}.ask(t.Context(), s.Addr, "PING")
	if err != nil || reply != "PONG" {
		t.Errorf("with TLS: %v, %v", reply, err)
	}
	if reply, err := (resp{}).ask(t.Context(), s.Addr, "PING"); err == nil {
		t.Errorf("without TLS it answers %v", reply)
	}
}

func TestRedisPasswordAndUnixSocket(t *testing.T) {
	s := Redis(t, "--requirepass", "secret", "--unixsocket", "redis.sock")
	if _, err := (resp{}).ask(t.Context(), s.Addr, "PING"); err == nil {
		t.Error("it answers without the password")
	}
	conn, err := net.Dial("unix", filepath.Join(s.Dir, "redis.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := exchange(conn, bufio.NewReader(conn), "AUTH", "secret"); err != nil || got != "OK" {
		t.Errorf("on the unix socket: %v, %v", got, err)
	}
}
