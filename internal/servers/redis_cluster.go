package servers

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

const redisSlots = 16384

// RedisCluster starts a Redis Cluster of that many masters without replicas. A real vote needs at least 3. RedisCluster
// returns when every node sees that all slots are covered, and can send notifications to every other node.
func RedisCluster(t testing.TB, masters int) []*Server {
	t.Helper()
	group := redisKind.source(t)
	list := make([]*Server, masters)
	for i := range list {
		list[i] = group.startRedis(t, redisSpec{options: []string{"--cluster-enabled", "yes", "--cluster-config-file",
			"nodes.conf",
			"--cluster-announce-ip", "127.0.0.1", "--cluster-node-timeout", "3000"}})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	if err := joinCluster(ctx, list); err != nil {
		t.Fatalf("servers: redis cluster: %v", err)
	}
	for _, s := range list {
		err := until(ctx, s.node.exited(), func(ctx context.Context) error {
			return cmp.Or(clusterReady(ctx, s, masters), clusterLinked(ctx, s, masters))
		})
		if err != nil {
			t.Fatalf("servers: redis cluster: node %s: %v", s.Addr, err)
		}
		ready := s.ready
		s.ready = func(ctx context.Context, s *Server) error { // also used by Start
			if err := ready(ctx, s); err != nil {
				return err
			}
			return clusterReady(ctx, s, masters)
		}
	}
	return list
}

// joinCluster assigns each node its share of the slots and its own epoch, and connects the nodes.
func joinCluster(ctx context.Context, list []*Server) error {
	for i, s := range list {
		slots := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * redisSlots / len(list); slot < (i+1)*redisSlots/len(list); slot++ {
			slots = append(slots, strconv.Itoa(slot))
		}
		for _, command := range [][]string{
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
			slots,
			{"CLUSTER", "MEET", "127.0.0.1", port(list[0].Addr)},
		} {
			if i == 0 && command[1] == "MEET" {
				continue
			}
			if _, err := (resp{}).ask(ctx, s.Addr, command...); err != nil {
				return fmt.Errorf("%s on %s: %w", command[1], s.Addr, err)
			}
		}
	}
	return nil
}

func clusterReady(ctx context.Context, s *Server, masters int) error {
	info, err := resp{}.info(ctx, s.Addr, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	got := fmt.Sprintf("state %s, %s nodes, %s slots", info["cluster_state"], info["cluster_known_nodes"],
		info["cluster_slots_ok"])
	if want := fmt.Sprintf("state ok, %d nodes, %d slots", masters, redisSlots); got != want {
		return fmt.Errorf("%s, want %s", got, want)
	}
	return nil
}

// clusterLinked returns an error until s has a link to every other node. Without its link to another node, s does not
// send a notification there. CLUSTER LINKS would need Redis 7.
func clusterLinked(ctx context.Context, s *Server, masters int) error {
	reply, err := resp{}.ask(ctx, s.Addr, "CLUSTER", "NODES")
	if err != nil {
		return err
	}
	nodes, _ := reply.(string)
	if linked := strings.Count(nodes, " connected"); linked < masters { // including s
		return fmt.Errorf("%d of %d nodes are connected", linked, masters)
	}
	return nil
}
