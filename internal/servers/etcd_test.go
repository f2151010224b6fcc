package servers

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/internal/storetest"
)

func etcdClient(t *testing.T, addrs ...string) *clientv3.Client {
	t.Helper()
	c, err := etcdSpec{}.client(addrs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestEtcdRestartKeepsData(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *Server{"installed": Etcd, "current": EtcdCurrent} {
		t.Run(name, func(t *testing.T) {
			if name == "current" {
				storetest.Long(t, "etcd's current release is built from its source first")
			}
			s := start(t)
			c := etcdClient(t, s.Addr)
			if _, err := c.Put(t.Context(), "k", "v"); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			s.Start()
			// The client may wait longer before it connects again, after a slow start, than it repeats a request.
			c = etcdClient(t, s.Addr)
			got, err := c.Get(t.Context(), "k")
			if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" {
				t.Errorf("after a restart k is %v, %v", got, err)
			}
			status, err := c.Status(t.Context(), s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("version %s", status.Version)
		})
	}
}

func TestEtcdFreezeAndThaw(t *testing.T) {
	s := Etcd(t)
	c := etcdClient(t, s.Addr)
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "k"); err == nil {
		t.Error("a frozen server answers")
	}
	s.Thaw()
	if _, err := c.Get(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}

func TestEtcdClusterSurvivesItsLeader(t *testing.T) {
	storetest.Long(t, "a cluster, and an election")
	members := EtcdCluster(t, 3)
	first := members.Leader()
	members.Servers[first].Kill()
	next := members.Leader()
	if next == first {
		t.Fatal("a killed member leads")
	}
	members.Servers[first].Start()
	members.Servers[next].Kill()
	members.StartEmpty(next)
	c := etcdClient(t, members.Servers[next].Addr)
	list, err := c.MemberList(t.Context())
	if err != nil || len(list.Members) != 3 {
		t.Errorf("members after one was replaced: %v, %v", list, err)
	}
}

func TestEtcdAuth(t *testing.T) {
	s := EtcdAuth(t, "worker", "secret", "locks/")
	c := etcdClient(t, s.Addr)
	if _, err := c.Get(t.Context(), "locks/a"); err == nil {
		t.Error("it answers without a password")
	}
	own, err := etcdSpec{ask: func(c *clientv3.Config) { c.Username, c.Password = "worker", "secret" }}.client(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if _, err := own.Put(t.Context(), "locks/a", "v"); err != nil {
		t.Error(err)
	}
	if _, err := own.Put(t.Context(), "other", "v"); err == nil {
		t.Error("the user may write everywhere")
	}
	s.Kill()
	s.Start()
}

func TestEtcdTLS(t *testing.T) {
	s := EtcdTLS(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := etcdClient(t, s.Addr).Status(ctx, s.Addr); err == nil {
		t.Error("it answers without TLS")
	}
}
