package memory

import "time"

// expire ends the leases whose TTL has run out.
func (s *Store) expire() {
	s.mu.Lock()
	s.clock.Woken()
	now := time.Now()
	for e := s.clock.FirstDue(now); e != nil; e = s.clock.FirstDue(now) {
		s.endLocked(e.Item)
	}
	s.clock.Arm()
	s.mu.Unlock()
	forget(s)
}
