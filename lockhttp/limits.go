package lockhttp

import (
	"fmt"
)

// usage counts what one caller, or all callers together, have in use.
type usage struct{ waiters, leases, watchers int }

func (u *usage) isZero() bool { return *u == usage{} }

// countLocked adds one to a caller's counter, selected by which. It fails if the caller, or all callers together, have
// reached the limit.
func (s *Server) countLocked(from caller, which func(*usage) *int, most, mostPerCaller int, what string) error {
	u := s.usage[from.id]
	if u == nil {
		u = new(usage)
	}
	switch {
	case *which(&s.total) >= most:
		return fmt.Errorf("%w %s at this server (limit %d)", errLimit, what, most)
	case *which(u) >= mostPerCaller:
		return fmt.Errorf("%w %s of this client (limit %d)", errLimit, what, mostPerCaller)
	}
	*which(&s.total)++
	*which(u)++
	s.usage[from.id] = u
	return nil
}

// discountLocked undoes one countLocked.
func (s *Server) discountLocked(from caller, which func(*usage) *int) {
	u := s.usage[from.id]
	*which(&s.total)--
	*which(u)--
	if u.isZero() {
		delete(s.usage, from.id)
	}
}
