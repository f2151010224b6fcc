package conformance

import (
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

var concurrentReleaseChecks = []Check{
	{
		Name: "FailedReleasesMeet",
		Rule: "Lease.Release: of two that meet while the store cannot be reached, none is ErrLost; later it returns nil, " +
			"and the key is free",
		Needs: []Need{needsLinked},
		run:   failedReleasesMeet,
	},
}

func failedReleasesMeet(t *trial) {
	const (
		bound    = 30 * time.Second // twice the bound of FrozenReleaseIsBounded: one Release may wait for the other
		patience = 50 * time.Millisecond
	)
	c, link := t.linked()
	t.usable(c)
	g := t.acquire(c, t.newKey(), t.long())
	link.Hold(ToStore)
	t.together(3, func(i int) {
		if i == 2 {
			time.Sleep(patience)
			link.Refuse()
			return
		}
		release := t.call(func() error { return g.Release(t.ctx) })
		err := release.ends(t, bound, "Release beside another while the store cannot be reached")
		if errors.Is(err, backend.ErrLost) && !t.excused(g, err) {
			t.fatalf("Release of a live lease, beside another while the store cannot be reached: %v", err)
		}
	})
	link.Heal()
	t.usable(c)
	var err error
	if !t.poll(recovery, func() bool { err = g.Release(t.ctx); return err == nil }) && !t.excused(g, err) {
		t.fatalf("Release after two that failed: %v, want nil", err)
	}
	t.becomesFree(t.b, g.key, recovery, "after releases that met")
}
