package fence_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/internal/fencetest"
)

// A guard is a fence.Guard as a fencetest.Scheme.
type guard struct{ fence.Guard }

func nothing() error { return nil }

func (g *guard) Check(token uint64) error       { return g.Do(token, nothing) }
func (g *guard) CheckShared(token uint64) error { return g.DoShared(token, nothing) }

// oneMaximum keeps only the highest token of readers and writers together. It refuses readers whose leases are live.
type oneMaximum struct{ fence.Guard }

func (g *oneMaximum) Check(token uint64) error       { return g.Do(token, nothing) }
func (g *oneMaximum) CheckShared(token uint64) error { return g.Do(token, nothing) }

// readersRaiseNothing does not keep the tokens of readers. It accepts a writer that a later reader has overtaken.
type readersRaiseNothing struct{ highest uint64 }

func (g *readersRaiseNothing) Check(token uint64) error {
	err := fence.Compare("", token, g.highest)
	if err == nil {
		g.highest = token
	}
	return err
}
func (g *readersRaiseNothing) CheckShared(token uint64) error {
	return fence.Compare("", token, g.highest)
}

// Of the three schemes, only Guard, with its two numbers, accepts every live holder and refuses every stale one.
func TestGuardHistories(t *testing.T) {
	const steps = 40
	histories := 20_000
	if testing.Short() {
		histories = 2_000
	}
	run := func(fresh func() fencetest.Scheme) (total fencetest.Verdict) {
		random := rand.New(rand.NewPCG(1, 2))
		for range histories {
			v, err := fencetest.History(random, fresh(), steps)
			if err != nil {
				t.Fatal(err)
			}
			total.Add(v)
		}
		return total
	}
	if v := run(func() fencetest.Scheme { return new(guard) }); v.LiveRefused+v.StaleAccepted > 0 || v.Live*v.Stale == 0 {
		t.Errorf("Guard: %+v", v)
	} else {
		t.Logf("Guard: %+v", v)
	}
	if v := run(func() fencetest.Scheme { return new(oneMaximum) }); v.LiveRefused == 0 {
		t.Errorf("one maximum refuses no live holder: %+v", v)
	} else {
		t.Logf("one maximum: %+v", v)
	}
	if v := run(func() fencetest.Scheme { return new(readersRaiseNothing) }); v.StaleAccepted == 0 {
		t.Errorf("readers that raise nothing let no stale writer pass: %+v", v)
	} else {
		t.Logf("readers that raise nothing: %+v", v)
	}
}

func TestGuardShared(t *testing.T) {
	var g guard
	for _, c := range []struct {
		what  string
		check func(uint64) error
		token uint64
		want  error
	}{
		{"reader", g.CheckShared, 512, nil},
		{"another reader, whose token is lower", g.CheckShared, 256, nil},
		{"stale writer", g.Check, 300, fence.ErrStale},
		{"the reader again", g.CheckShared, 256, nil},
		{"later writer", g.Check, 768, nil},
		{"stale reader", g.CheckShared, 512, fence.ErrStale},
		{"the writer again", g.Check, 768, nil},
		{"no token", g.CheckShared, 0, lock.ErrInvalid},
	} {
		if err := c.check(c.token); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.what, err, c.want)
		}
	}
	var stale *fence.StaleError
	if err := g.CheckShared(1); !errors.As(err, &stale) || *stale != (fence.StaleError{Token: 1, Seen: 768}) {
		t.Errorf("error %#v does not say which tokens", err)
	}
}

// Reads run at the same time, but never beside a write.
func TestGuardReadsOverlap(t *testing.T) {
	var g fence.Guard
	const readers = 4
	var all, wg sync.WaitGroup
	all.Add(readers)
	for i := range readers {
		wg.Go(func() {
			err := g.DoShared(uint64(readers-i), func() error {
				all.Done()
				all.Wait() // for the other readers
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	var writing, reading atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			for token := uint64(readers); token < 200; token++ {
				if i%2 == 0 {
					_ = g.Do(token, func() error { // stale at times
						if writing.Add(1) != 1 || reading.Load() != 0 {
							t.Error("a write beside another act")
						}
						runtime.Gosched()
						writing.Add(-1)
						return nil
					})
				} else {
					_ = g.DoShared(token, func() error {
						reading.Add(1)
						runtime.Gosched()
						if writing.Load() != 0 {
							t.Error("a read beside a write")
						}
						reading.Add(-1)
						return nil
					})
				}
			}
		})
	}
	wg.Wait()
}
