package lockhttp

import (
	"fmt"
)

// usage is what one caller, or all of them, have in use.
type usage struct{ waiters, leases, watchers int }

func (u *usage) isZero() bool { return *u == usage{} }

// countLocked adds one to what a caller uses. It fails if the caller, or all together, use as much as they may.
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

// discountLocked takes one off again.
func (s *Server) discountLocked(from caller, which func(*usage) *int) {
	u := s.usage[from.id]
	*which(&s.total)--
	*which(u)--
	if u.isZero() {
		delete(s.usage, from.id)
	}
}
