package gocronlock_test

import (
	"testing"
	"time"

	"github.com/anylock/lock"
	gocronlock "github.com/anylock/lock/adapters/gocron"
	"github.com/anylock/lock/internal/adaptertest"
	"github.com/anylock/lock/internal/storetest"
)

// The store may have a lost lease still. It does not keep its holder out.
func TestElectorIsNotKeptOutByTheLost(t *testing.T) {
	store := adaptertest.NewGhosts()
	locks, err := lock.New(store, lock.WithTTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	e := gocronlock.NewElector(locks, "leader")
	leads := func() bool { return e.IsLeader(t.Context()) == nil }
	storetest.Until(t, storetest.Soon, "the elector to lead", leads)
	close(store.Lost)
	storetest.Until(t, storetest.Soon, "the elector to ask again", func() bool { return store.Asked.Load() > 1 })
	storetest.Until(t, storetest.Soon, "the elector to lead again", leads)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
