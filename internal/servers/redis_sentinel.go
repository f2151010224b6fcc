package servers

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// A Sentinel is a Redis master with a replica. Three sentinels watch them, and replace a dead master within seconds.
type Sentinel struct {
	Name            string // the master's name, for which clients query the sentinels
	Master, Replica *Server
	Sentinels       []*Server
}

const (
	sentinelCount     = 3
	sentinelDownAfter = time.Second     // a server that does not respond for so long counts as dead
	sentinelFailover  = 3 * time.Second // a failed failover is retried after twice this time
)

// RedisSentinel starts a master, its replica and three sentinels. It returns when all know each other and a failover is
// possible.
func RedisSentinel(t testing.TB) *Sentinel {
	t.Helper()
	group := redisKind.source(t)
	set := &Sentinel{Name: "anylock"}
	set.Master = group.startRedis(t, redisSpec{options: []string{"--repl-ping-replica-period", "1"}})
	set.Replica = group.startRedis(t, redisSpec{options: []string{"--repl-ping-replica-period", "1",
		"--replicaof", "127.0.0.1", port(set.Master.Addr)}})
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	// If a sentinel finds the replica when it first inspects the master, we need not wait for its second inspection.
	if err := until(ctx, set.Replica.node.exited(), set.replicated); err != nil {
		t.Fatalf("servers: redis replica %s: %v", set.Replica.Addr, err)
	}
	for range sentinelCount {
		set.Sentinels = append(set.Sentinels, group.startRedis(t, redisSpec{sentinel: set.conf}))
	}
	for _, s := range set.Sentinels {
		err := until(ctx, s.node.exited(), func(ctx context.Context) error { return set.watched(ctx, s) })
		if err != nil {
			t.Fatalf("servers: redis sentinel %s: %v", s.Addr, err)
		}
	}
	return set
}

// conf returns the configuration of one sentinel, which also saves its state there.
func (set *Sentinel) conf(own string) string {
	return fmt.Sprintf(""+
		"port %[1]s\n"+
		"bind %[2]s\n"+
		"protected-mode no\n"+
		"sentinel announce-ip 127.0.0.1\n"+
		"sentinel monitor %[3]s 127.0.0.1 %[4]s %[5]d\n"+
		"sentinel down-after-milliseconds %[3]s %[6]d\n"+
		"sentinel failover-timeout %[3]s %[7]d\n",
		own, bindHost, set.Name, port(set.Master.Addr), sentinelCount/2+1,
		sentinelDownAfter.Milliseconds(), sentinelFailover.Milliseconds())
}

// replicated returns an error unless the replica follows the master.
func (set *Sentinel) replicated(ctx context.Context) error {
	info, err := resp{}.info(ctx, set.Replica.Addr, "INFO", "replication")
	if err != nil {
		return err
	}
	if got := info["master_link_status"]; got != "up" {
		return fmt.Errorf("link to the master is %q", got)
	}
	info, err = resp{}.info(ctx, set.Master.Addr, "INFO", "replication")
	if err != nil {
		return err
	}
	if got := info["connected_slaves"]; got != "1" {
		return fmt.Errorf("the master has %s replicas", got)
	}
	return nil
}

// watched returns an error unless sentinel s sees all other servers.
func (set *Sentinel) watched(ctx context.Context, s *Server) error {
	reply, err := resp{}.ask(ctx, s.Addr, "SENTINEL", "MASTER", set.Name)
	if err != nil {
		return err
	}
	m := pairs(reply)
	got := fmt.Sprintf("%s with %s replicas and %s other sentinels", m["flags"], m["num-slaves"], m["num-other-sentinels"])
	if want := fmt.Sprintf("master with 1 replicas and %d other sentinels", sentinelCount-1); got != want {
		return fmt.Errorf("sees a %s, want a %s", got, want)
	}
	reply, err = resp{}.ask(ctx, s.Addr, "SENTINEL", "REPLICAS", set.Name)
	if err != nil {
		return err
	}
	list, _ := reply.([]any)
	for _, replica := range list {
		if r := pairs(replica); r["flags"] != "slave" || r["master-link-status"] != "ok" {
			return fmt.Errorf("sees replica %s as %s with link %s", r["name"], r["flags"], r["master-link-status"])
		}
	}
	_, err = resp{}.ask(ctx, s.Addr, "SENTINEL", "CKQUORUM", set.Name)
	return err
}
