// Package alarm keeps things in the order of their times and calls when the first is due: one timer for all of them, and
// no goroutine at rest.
package alarm

import "time"

// A Clock holds entries, the earliest first. The caller's lock guards it and the entries in it.
type Clock[T any] struct {
	due     func()
	heap    []*Entry[T] // by time; an own one, because container/heap costs more than the rest of Set and Remove
	timer   *time.Timer
	timerAt time.Time // when timer fires; zero when it is not set
}

// New returns an empty Clock that calls due, on a goroutine of its own, when the first entry may be due. due takes the
// caller's lock, calls Woken, takes what is due, and calls Arm. It may be called early, for nothing.
func New[T any](due func()) Clock[T] { return Clock[T]{due: due} }

// An Entry is the place of one item in a Clock. The zero Entry but for Item is ready; it must not move.
type Entry[T any] struct {
	Item  T
	at    time.Time
	index int // in the heap, from 1; 0 when it is not there
}

// At is when the entry is, or was last, due.
func (e *Entry[T]) At() time.Time { return e.at }

// Set reports whether the entry is in a Clock.
func (e *Entry[T]) Set() bool { return e.index > 0 }

// Len is the number of entries.
func (c *Clock[T]) Len() int { return len(c.heap) }

// First is the entry that is due first, nil if there is none.
func (c *Clock[T]) First() *Entry[T] {
	if len(c.heap) == 0 {
		return nil
	}
	return c.heap[0]
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
	e.at = at
	if !e.Set() {
		c.heap = append(c.heap, e)
		e.index = len(c.heap)
	}
	c.fix(e)
}

// Remove takes e out, if it is in.
func (c *Clock[T]) Remove(e *Entry[T]) {
	if !e.Set() {
		return
	}
	n := len(c.heap)
	last := c.heap[n-1]
	c.heap[n-1] = nil
	c.heap = c.heap[:n-1]
	if last != e {
		c.place(last, e.index)
		c.fix(last)
	}
	e.index = 0
}

func (c *Clock[T]) place(e *Entry[T], index int) {
	c.heap[index-1] = e
	e.index = index
}

// fix moves e, whose time has changed, up or down the heap.
func (c *Clock[T]) fix(e *Entry[T]) {
	i := e.index
	for i > 1 && e.at.Before(c.heap[i/2-1].at) {
		c.place(c.heap[i/2-1], i)
		i /= 2
	}
	if i == e.index { // it did not move up
		for n := len(c.heap); 2*i <= n; {
			child := 2 * i
			if child < n && c.heap[child].at.Before(c.heap[child-1].at) {
				child++
			}
			if !c.heap[child-1].at.Before(e.at) {
				break
			}
			c.place(c.heap[child-1], i)
			i = child
		}
	}
	c.place(e, i)
}

// Woken says that due has been called.
func (c *Clock[T]) Woken() { c.timerAt = time.Time{} }

// Arm sets the timer for the first entry. A timer that will fire too early is left alone, because due then finds nothing
// and arms it again: that is cheaper than moving it whenever the first entry moves.
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

// Stop takes all entries out and stops the timer. A call of due may be under way.
func (c *Clock[T]) Stop() {
	for _, e := range c.heap {
		e.index = 0
	}
	c.heap = nil
	if c.timer != nil {
		c.timer.Stop()
	}
}
