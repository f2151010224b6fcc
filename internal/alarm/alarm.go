// Package alarm orders items by time, and calls a function when the first item is due. All items share one timer, and
// no goroutine runs between alarms.
package alarm

import "time"

// openRuns is how many runs can grow at once: the usual number of different TTLs, and a few more.
const openRuns = 4

// A Clock holds entries, the earliest first. The caller's lock guards the Clock and its entries.
//
// A Clock divides its entries into runs, which are lists ordered by time. A heap orders the runs by their first
// entries. Deadlines with the same TTL arrive nearly in order of time and form one run. However long the run is, a
// change then touches only the entry and its neighbours. In a heap of all entries, each change would touch a dozen
// other entries, far apart in memory.
type Clock[T any] struct {
	due  func()
	base time.Time // times are stored as durations since base, because integers compare faster
	// the first entry of each run; not a container/heap, which would cost more than the rest of Set and Remove
	heap    []end[T]
	growing [openRuns]end[T] // the last entry of each run that can grow; a nil entry marks a free slot
	evict   int              // the slot to reuse next for a new run
	length  int
	timer   *time.Timer
	timerAt time.Time // when timer fires; zero if timer is not set
}

// An end is the first or last entry of a run, with a copy of its time.
type end[T any] struct {
	at    time.Duration
	entry *Entry[T]
}

// New returns an empty Clock. It calls due on its own goroutine when the first entry may be due. due must acquire the
// caller's lock, call Woken, remove and handle the entries that are due, and call Arm. due may be called before any
// entry is due.
func New[T any](due func()) Clock[T] { return Clock[T]{due: due} }

// An Entry is the slot of one item in a Clock. A zero Entry with an Item is ready to use. It must not be copied while
// it is in a Clock.
type Entry[T any] struct {
	Item       T
	at         time.Time
	prev, next *Entry[T] // in its run
	// for the first entry of a run, the run's position in the heap, from 1; within for other entries; 0 outside a Clock
	index int
}

const within = -1

// At returns when the entry is due, or when it was last due.
func (e *Entry[T]) At() time.Time { return e.at }

// Set reports whether the entry is in a Clock.
func (e *Entry[T]) Set() bool { return e.index != 0 }

// Len returns the number of entries.
func (c *Clock[T]) Len() int { return c.length }

// First returns the entry that is due first, or nil if there is none.
func (c *Clock[T]) First() *Entry[T] {
	if len(c.heap) == 0 {
		return nil
	}
	return c.heap[0].entry
}

// FirstDue returns the first entry if it is due at now, or nil.
func (c *Clock[T]) FirstDue(now time.Time) *Entry[T] {
	if e := c.First(); e != nil && !now.Before(e.at) {
		return e
	}
	return nil
}

// Set adds e, or moves it, so that it is due at the given time. Call Arm afterwards.
func (c *Clock[T]) Set(e *Entry[T], at time.Time) {
	if e.index != 0 {
		c.Remove(e)
	}
	if c.length == 0 {
		c.base = at
	}
	e.at = at
	c.length++
	f := end[T]{at.Sub(c.base), e}
	run, free := -1, -1 // of the runs that end no later than f, run ends last
	for i := range c.growing {
		switch g := &c.growing[i]; {
		case g.entry == nil:
			free = i
		case g.at <= f.at && (run < 0 || c.growing[run].at < g.at):
			run = i
		}
	}
	if run >= 0 {
		last := c.growing[run].entry
		last.next, e.prev = e, last
		e.index = within
		c.growing[run] = f
		return
	}
	if free < 0 {
		free = c.evict
		c.evict = (c.evict + 1) % openRuns
	}
	c.growing[free] = f
	c.heap = append(c.heap, f)
	c.rise(len(c.heap), f)
}

// Remove removes e if it is in the Clock.
func (c *Clock[T]) Remove(e *Entry[T]) {
	if e.index == 0 {
		return
	}
	c.length--
	prev, next, index := e.prev, e.next, e.index
	e.index = 0
	if next == nil {
		for i := range c.growing {
			if g := &c.growing[i]; g.entry == e {
				g.entry = prev
				if prev != nil {
					g.at = prev.at.Sub(c.base)
				}
				break
			}
		}
	} else {
		next.prev = prev
		e.next = nil
	}
	switch {
	case prev != nil:
		prev.next = next
		e.prev = nil
	case next != nil:
		c.sink(index, end[T]{next.at.Sub(c.base), next})
	default:
		c.cut(index)
	}
}

// cut removes a run from the heap.
func (c *Clock[T]) cut(index int) {
	n := len(c.heap)
	last := c.heap[n-1]
	c.heap[n-1].entry = nil
	c.heap = c.heap[:n-1]
	switch {
	case index == n:
	case index > 1 && last.at < c.heap[index/2-1].at:
		c.rise(index, last)
	default:
		c.sink(index, last)
	}
}

func (c *Clock[T]) place(index int, f end[T]) {
	c.heap[index-1] = f
	f.entry.index = index
}

// rise inserts a run into the heap at index i or above.
func (c *Clock[T]) rise(i int, f end[T]) {
	for i > 1 && f.at < c.heap[i/2-1].at {
		c.place(i, c.heap[i/2-1])
		i /= 2
	}
	c.place(i, f)
}

// sink inserts a run into the heap at index i or below.
func (c *Clock[T]) sink(i int, f end[T]) {
	for n := len(c.heap); 2*i <= n; {
		child := 2 * i
		if child < n && c.heap[child].at < c.heap[child-1].at {
			child++
		}
		if c.heap[child-1].at >= f.at {
			break
		}
		c.place(i, c.heap[child-1])
		i = child
	}
	c.place(i, f)
}

// Woken records that the timer has fired. due must call it.
func (c *Clock[T]) Woken() { c.timerAt = time.Time{} }

// Arm sets the timer for the first entry. It does not move a timer that would fire too early, because due then finds no
// entry and calls Arm again. This costs less than moving the timer with every move of the first entry.
func (c *Clock[T]) Arm() {
	first := c.First()
	if first == nil || !c.timerAt.IsZero() && !first.at.Before(c.timerAt) {
		return
	}
	c.timerAt = first.at
	if c.timer == nil {
		c.timer = time.AfterFunc(time.Until(first.at), c.due)
	} else {
		c.timer.Reset(time.Until(first.at))
	}
}

// Stop removes all entries and stops the timer. A call of due may still be in progress. Do not call Set afterwards: the
// timer might not start again.
func (c *Clock[T]) Stop() {
	for e := c.First(); e != nil; e = c.First() {
		c.Remove(e)
	}
	c.heap = nil
	if c.timer != nil {
		c.timer.Stop()
	}
}
