package memory

import (
	"container/heap"
	"time"
)

// armLocked sets the timer for the earliest expiry. A timer that fires too early is left alone: it finds nothing and
// arms itself again, which is cheaper than moving it at every release.
func (s *Store) armLocked() {
	if len(s.expiries) == 0 {
		return
	}
	at := s.expiries[0].expires
	if !s.timerAt.IsZero() && !at.Before(s.timerAt) {
		return
	}
	s.timerAt = at
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(at), s.expire)
	} else {
		s.timer.Reset(time.Until(at))
	}
}

// expire ends the leases whose TTL has run out.
func (s *Store) expire() {
	s.mu.Lock()
	s.timerAt = time.Time{}
	now := time.Now()
	for len(s.expiries) > 0 && !now.Before(s.expiries[0].expires) {
		s.endLocked(s.expiries[0], now)
	}
	s.armLocked()
	s.mu.Unlock()
	forget(s)
}

// expiries is a heap of the keys that are held, the earliest expiry first.
type expiries []*entry

var _ heap.Interface = (*expiries)(nil)

func (h expiries) Len() int           { return len(h) }
func (h expiries) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h expiries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *expiries) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *expiries) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
