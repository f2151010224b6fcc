package alarm_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/internal/leak"

	"github.com/anylock/lock/internal/alarm"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// bells records when each entry was due.
type bells struct {
	mu    sync.Mutex
	clock alarm.Clock[int]
	calls int
	rung  map[int]time.Time
}

func newBells() *bells {
	b := &bells{rung: make(map[int]time.Time)}
	b.clock = alarm.New[int](b.due)
	return b
}

func (b *bells) due() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	b.clock.Woken()
	now := time.Now()
	for e := b.clock.FirstDue(now); e != nil; e = b.clock.FirstDue(now) {
		b.clock.Remove(e)
		b.rung[e.Item] = now
	}
	b.clock.Arm()
}

func (b *bells) set(e *alarm.Entry[int], after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock.Set(e, time.Now().Add(after))
	b.clock.Arm()
}

// Whichever entries are added, moved and removed, each remaining entry is due exactly at its time.
func TestEveryEntryAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBells()
		entries := make([]alarm.Entry[int], 200)
		for i := range entries {
			entries[i].Item = i
		}
		want := make(map[int]time.Time)
		for range 2000 {
			i := rand.N(len(entries))
			e := &entries[i]
			if rand.N(4) == 0 {
				b.mu.Lock()
				b.clock.Remove(e)
				set := e.Set()
				b.mu.Unlock()
				if set {
					t.Fatal("still set after Remove")
				}
				delete(want, i)
				continue
			}
			b.set(e, time.Hour+rand.N(time.Hour))
			want[i] = e.At()
			time.Sleep(rand.N(time.Second))
		}
		b.mu.Lock()
		n := b.clock.Len()
		b.mu.Unlock()
		if n != len(want) {
			t.Errorf("%d entries, want %d", n, len(want))
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		for i, at := range want {
			if !b.rung[i].Equal(at) {
				t.Errorf("entry %d was rung at %v, want %v", i, b.rung[i], at)
			}
		}
		if len(b.rung) != len(want) || b.clock.First() != nil {
			t.Errorf("%d rung, want %d; first left: %v", len(b.rung), len(want), b.clock.First())
		}
	})
}

// An entry that is repeatedly moved later causes a single early call of due.
func TestEarlyTimerIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBells()
		var e alarm.Entry[int]
		for range 1000 {
			b.set(&e, time.Minute)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.calls != 2 || len(b.rung) != 1 {
			t.Errorf("%d calls, %d rung; want 2 and 1", b.calls, len(b.rung))
		}
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBells()
		var e alarm.Entry[int]
		b.set(&e, time.Minute)
		b.mu.Lock()
		b.clock.Stop()
		b.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.calls != 0 || e.Set() || b.clock.Len() != 0 {
			t.Errorf("%d calls after Stop, set %v, %d entries", b.calls, e.Set(), b.clock.Len())
		}
	})
}
