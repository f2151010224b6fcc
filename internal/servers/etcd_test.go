package servers

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/anylock/lock/internal/storetest"
)

func newEtcdClient(t *testing.T, addr string, login ...string) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop(), DialTimeout: 2 * time.Second}
	if len(login) > 0 {
		config.Username, config.Password = login[0], login[1]
	}
	c, err := clientv3.New(config)
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
			c := newEtcdClient(t, s.Addr)
			if _, err := c.Put(t.Context(), "k", "v"); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			s.Start()
			// After a slow start of the server, the old client may wait longer for its next connection than it repeats a
			// request.
			c = newEtcdClient(t, s.Addr)
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
	c := newEtcdClient(t, s.Addr)
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
	c := newEtcdClient(t, members.Servers[next].Addr)
	list, err := c.MemberList(t.Context())
	if err != nil || len(list.Members) != 3 {
		t.Errorf("members after one was replaced: %v, %v", list, err)
	}
}

func TestEtcdAuth(t *testing.T) {
	s := EtcdAuth(t, "worker", "secret", "locks/")
	c := newEtcdClient(t, s.Addr)
	if _, err := c.Get(t.Context(), "locks/a"); err == nil {
		t.Error("it answers without a password")
	}
	own := newEtcdClient(t, s.Addr, "worker", "secret")
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
	if _, err := newEtcdClient(t, s.Addr).Status(ctx, s.Addr); err == nil {
		t.Error("it answers without TLS")
	}
}
