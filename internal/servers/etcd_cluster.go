package servers

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

// An EtcdMembers is a cluster of etcd.
type EtcdMembers struct {
	Servers []*Server

	t     testing.TB
	specs []etcdSpec
}

// EtcdCluster starts a cluster with that many members, with the program installed on this machine.
func EtcdCluster(t testing.TB, members int) *EtcdMembers {
	t.Helper()
	return startEtcdCluster(t, etcdKind, members)
}

// EtcdClusterCurrent is [EtcdCluster] with the current release of etcd.
func EtcdClusterCurrent(t testing.TB, members int) *EtcdMembers {
	t.Helper()
	return startEtcdCluster(t, etcdCurrentKind, members)
}

func startEtcdCluster(t testing.TB, k kind, members int) *EtcdMembers {
	t.Helper()
	g := k.source(t)
	c := &EtcdMembers{t: t}
	for range members {
		c.specs = append(c.specs, g.newEtcdSpec(t))
	}
	for i := range c.specs {
		c.specs[i].peers = joined(c.specs)
		c.Servers = append(c.Servers, g.server(t, c.specs[i].launch()).keep())
	}
	// No member responds until a majority of the members runs.
	var starting sync.WaitGroup
	for _, s := range c.Servers {
		starting.Go(func() { s.check("start", s.node.start()) })
	}
	starting.Wait()
	for _, s := range c.Servers {
		s.waitReady()
	}
	return c
}

// waitReady waits until a server that is starting responds.
func (s *Server) waitReady() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	if err := until(ctx, nil, func(ctx context.Context) error { return s.ready(ctx, s) }); err != nil {
		s.t.Fatalf("servers: start %s %s: %v\n%s", s.kind, s.Addr, err, tail(s.node.log()))
	}
}

// Leader returns the index of the leader, according to the running members.
func (c *EtcdMembers) Leader() int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	leader := -1
	err := until(ctx, nil, func(ctx context.Context) error {
		for i, s := range c.Servers {
			if c.leads(ctx, i, s) {
				leader = i
				return nil
			}
		}
		return fmt.Errorf("no leader")
	})
	if err != nil {
		c.t.Fatalf("servers: etcd cluster: %v", err)
	}
	return leader
}

// leads reports whether a member reports itself as the leader, and can complete a read that needs a majority.
func (c *EtcdMembers) leads(ctx context.Context, i int, s *Server) bool {
	client := c.specs[i].client
	const each = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	var status struct {
		Header struct {
			MemberID string `json:"member_id"`
		}
		Leader string
	}
	err := client.do(ctx, []string{s.Addr}, "/v3/maintenance/status", struct{}{}, &status)
	return err == nil && status.Leader == status.Header.MemberID && client.read(ctx, s.Addr) == nil
}

// StartEmpty starts a killed member without its data, as etcd's manual describes: it removes the old member from the
// cluster, and adds a new one in its place.
func (c *EtcdMembers) StartEmpty(i int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	old := c.specs[i]
	spec := old
	spec.name = old.name + "x"
	spec.data = "data-" + strconv.Itoa(len(spec.name)) // longer each time
	spec.state = "existing"
	others := make([]etcdSpec, len(c.specs))
	copy(others, c.specs)
	others[i] = spec
	spec.peers = joined(others)
	if err := until(ctx, nil, func(ctx context.Context) error { return c.replace(ctx, i, old, spec) }); err != nil {
		c.t.Fatalf("servers: etcd cluster: replace member %d: %v", i, err)
	}
	c.specs[i] = spec
	s := c.Servers[i]
	s.node.(*process).args,
		_ = spec.command(place{ports: []string{strconv.Itoa(spec.ports[0]), strconv.Itoa(spec.ports[1])}})
	s.ready = spec.ready
	s.check("start", s.node.start())
	s.waitReady()
}

// replace removes the old member and adds the new one. It skips the steps that are already done.
func (c *EtcdMembers) replace(ctx context.Context, i int, old, spec etcdSpec) error {
	var addrs []string
	for k, s := range c.Servers {
		if k != i {
			addrs = append(addrs, s.Addr)
		}
	}
	list, err := spec.client.members(ctx, addrs...)
	if err != nil {
		return err
	}
	added := false
	for _, m := range list.Members {
		switch {
		case m.Name == old.name:
			if err := spec.client.do(ctx, addrs, "/v3/cluster/member/remove", map[string]string{"ID": m.ID}, nil); err != nil {
				return err
			}
		case m.Name == "" && len(m.PeerURLs) > 0 && m.PeerURLs[0] == spec.peerURL():
			added = true // the member gets its name when it starts
		}
	}
	if added {
		return nil
	}
	return spec.client.do(ctx, addrs, "/v3/cluster/member/add", map[string]any{"peerURLs": []string{spec.peerURL()}}, nil)
}
