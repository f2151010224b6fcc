package memory

import "time"

// expire ends the leases whose TTL has run out.
func (s *Store) expire() {
	s.mu.Lock()
	s.clock.Woken()
	s.endDueLocked(time.Now())
	s.clock.Arm()
	s.mu.Unlock()
	forget(s)
}
