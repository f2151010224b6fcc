package redlock

import (
	"testing"

	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/redistest"
)

func TestDoctorWellConfigured(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	storetest.Healthy(t, f.open())
}

func TestDoctorNewFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	r := f.open()
	storetest.Finds(t, r, "no-quorum", "no-vote")
}

func TestDoctorMissingNode(t *testing.T) {
	storetest.Long(t, "a server of three that is missing")
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	f.nodes[2].Kill()
	if got := storetest.Finds(t, r, "unreachable"); got.Where != f.nodes[2].Addr {
		t.Errorf("%+v", got)
	}
}

func TestDoctorClocks(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	r := opened(t, through([]string{redistest.Shifted(t, f.nodes[0].Addr).Addr, f.nodes[1].Addr, f.nodes[2].Addr}))
	storetest.Finds(t, r, "clocks-apart", "clock-skew")
}
