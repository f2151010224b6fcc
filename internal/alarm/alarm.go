// Package alarm orders items by time, and calls a function when the first is due. All items share one timer, and no
// goroutine runs between alarms.
package alarm

import "time"

// openRuns is how many runs may grow at once: as many different TTLs as leases usually have, and some.
const openRuns = 4

// A Clock holds entries, the earliest first. The caller's lock guards it and the entries in it.
//
// It keeps runs, which are lists in the order of time, in a heap by their first entries. Deadlines of one TTL are put
// in in the order of time, or nearly so, and make one run: then nothing is moved but the entry and its neighbours,
// however many there are. In a heap of all entries each move would touch a dozen others, far apart in memory.
type Clock[T any] struct {
	due  func()
	base time.Time // from which times are counted here: numbers compare faster
	// the first of each run; an own heap, because container/heap costs more than the rest of Set and Remove
	heap    []end[T]
	growing [openRuns]end[T] // the last of each run that grows; nil is a free place
	evict   int              // the run to give up next, for a new one
	length  int
	timer   *time.Timer
	timerAt time.Time // when timer fires; zero when it is not set
}

// An end is the first or last entry of a run, with its time beside it.
type end[T any] struct {
	at    time.Duration
	entry *Entry[T]
}

// New returns an empty Clock that calls due, on a goroutine of its own, when the first entry may be due. due takes the
// caller's lock, calls Woken, takes what is due, and calls Arm. It may be called early, for nothing.
func New[T any](due func()) Clock[T] { return Clock[T]{due: due} }

// An Entry is the place of one item in a Clock. The zero Entry but for Item is ready; it must not move.
type Entry[T any] struct {
	Item       T
	at         time.Time
	prev, next *Entry[T] // in its run
	// of the run in the heap, from 1, for its first entry; within for the others; 0 when it is not there
	index int
}

const within = -1

// At is when the entry is, or was last, due.
func (e *Entry[T]) At() time.Time { return e.at }

// Set reports whether the entry is in a Clock.
func (e *Entry[T]) Set() bool { return e.index != 0 }

// Len is the number of entries.
func (c *Clock[T]) Len() int { return c.length }

// First is the entry that is due first, nil if there is none.
func (c *Clock[T]) First() *Entry[T] {
	if len(c.heap) == 0 {
		return nil
	}
	return c.heap[0].entry
}

// FirstDue is the first entry if it is due at now, nil otherwise.
func (c *Clock[T]) FirstDue(now time.Time) *Entry[T] {
	if e := c.First(); e != nil && !now.Before(e.at) {
		return e
	}
	return nil
}

// Set puts e in, or moves it, to be due at the given time. Call Arm afterwards.
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
	run, free := -1, -1 // the one that ends last, of those that end by then
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

// Remove removes e if the Clock has it.
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

// rise puts a run into the heap at an index, or further up.
func (c *Clock[T]) rise(i int, f end[T]) {
	for i > 1 && f.at < c.heap[i/2-1].at {
		c.place(i, c.heap[i/2-1])
		i /= 2
	}
	c.place(i, f)
}

// sink puts a run into the heap at an index, or further down.
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

// Woken says that due has been called.
func (c *Clock[T]) Woken() { c.timerAt = time.Time{} }

// Arm sets the timer for the first entry. A timer that will fire too early is left alone, because due then finds
// nothing and arms it again: that is cheaper than moving it whenever the first entry moves.
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

// Stop removes all entries and stops the timer. A call of due may be under way.
func (c *Clock[T]) Stop() {
	for e := c.First(); e != nil; e = c.First() {
		c.Remove(e)
	}
	c.heap = nil
	if c.timer != nil {
		c.timer.Stop()
	}
}
