package zookeeper

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/anylock/lock/internal/servers"
)

// The servers that tests share, each test below a chroot of its own.
var (
	usual = &servers.Shared{Start: func(t testing.TB) *servers.Server { return servers.ZooKeeper(t, untidy) }}
	// lasting grants sessions of up to a minute.
	lasting = &servers.Shared{Start: func(t testing.TB) *servers.Server { return servers.ZooKeeper(t, longest, untidy) }}
	// tidy removes empty containers at once.
	tidy = &servers.Shared{Start: func(t testing.TB) *servers.Server {
		return servers.ZooKeeper(t, "-Dznode.container.checkIntervalMs=5")
	}}
)

const (
	longest = "maxSessionTimeout=60000"
	untidy  = "-Dznode.container.checkIntervalMs=3600000" // it removes no container between two steps of a test
)

// A spot is a server and the chroot of a test.
type spot struct{ Addr, chroot string }

var spots atomic.Int64

// on gives a test a chroot of its own on a server that others use, too.
func on(t testing.TB, shared *servers.Shared) spot {
	t.Helper()
	return spot{shared.Get(t).Addr, fmt.Sprintf("/%s-%d", t.Name(), spots.Add(1))}
}

// alone gives a test a server like lasting, to which nobody else writes: after many writes a client looks at the queue.
func alone(t testing.TB) spot {
	t.Helper()
	return spot{Addr: servers.ZooKeeper(t, longest, untidy).Addr}
}

func (s spot) url() string { return s.at(s.Addr) }

// at is the URL of the spot by way of another address, as that of a proxy.
func (s spot) at(addr string) string { return "zookeeper://" + addr + s.chroot }
