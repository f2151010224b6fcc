package redis

import (
	"testing"

	"github.com/anylock/lock/internal/storetest"
)

func TestRedlockDoctorWellConfigured(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, durable...)
	f.bootstrap()
	storetest.Healthy(t, f.open())
}

func TestRedlockDoctorNewFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	r := f.open()
	storetest.Finds(t, r, "no-quorum", "no-vote", "bars-after-restart")
	if f := storetest.Finds(t, r, "one-host"); f.Found != "3 of 3 nodes are on 127.0.0.1" {
		t.Errorf("%+v", f)
	}
}

func TestRedlockDoctorMissingNode(t *testing.T) {
	storetest.Long(t, "a server of three that is missing")
	t.Parallel()
	f := startFleet(t, 3, durable...)
	f.bootstrap()
	r := f.open()
	f.nodes[2].Kill()
	if got := storetest.Finds(t, r, "unreachable"); got.Where != f.nodes[2].Addr {
		t.Errorf("%+v", got)
	}
}

func TestRedlockDoctorClocks(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, durable...)
	r := openedRedlock(t, through([]string{shifted(t, f.nodes[0].Addr).Addr, f.nodes[1].Addr, f.nodes[2].Addr}))
	storetest.Finds(t, r, "clocks-apart", "clock-skew")
}
