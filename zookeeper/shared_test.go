package zookeeper

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/anylock/lock/internal/servers"
)

// The servers that tests share. Each test uses its own chroot.
var (
	usual = &servers.Shared{Start: func(t testing.TB) *servers.Server { return servers.ZooKeeper(t, untidy) }}
	// lasting grants sessions of up to a minute.
	lasting = &servers.Shared{Start: func(t testing.TB) *servers.Server { return servers.ZooKeeper(t, longest, untidy) }}
	// tidy deletes empty containers at once.
	tidy = &servers.Shared{Start: func(t testing.TB) *servers.Server {
		return servers.ZooKeeper(t, "-Dznode.container.checkIntervalMs=5")
	}}
)

const (
	longest = "maxSessionTimeout=60000"
	untidy  = "-Dznode.container.checkIntervalMs=3600000" // no container is deleted between two steps of a test
)

// A spot is a server and the chroot of a test.
type spot struct{ Addr, chroot string }

var spots atomic.Int64

// on returns a spot on a shared server, with a new chroot.
func on(t testing.TB, shared *servers.Shared) spot {
	t.Helper()
	return spot{shared.Get(t).Addr, fmt.Sprintf("/%s-%d", t.Name(), spots.Add(1))}
}

// alone returns a spot on a server like lasting that no other test uses.
func alone(t testing.TB) spot {
	t.Helper()
	return spot{Addr: servers.ZooKeeper(t, longest, untidy).Addr}
}

func (s spot) url() string { return s.at(s.Addr) }

// at returns the URL of the spot through another address, for example the address of a proxy.
func (s spot) at(addr string) string { return "zookeeper://" + addr + s.chroot }
