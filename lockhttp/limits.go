package lockhttp

import (
	"fmt"
)

// The maximum number of lists at once. A list may read everything that the store keeps, and then each key.
const (
	maxLists          = 32
	maxListsPerCaller = 8
)

// usage counts what one caller, or all callers together, have in use.
type usage struct{ waiters, leases, watchers, lists int }

func (u *usage) isZero() bool { return *u == usage{} }

// count is countLocked for a request that calls discount at its end.
func (s *Server) count(
	from caller, which func(*usage) *int, most, mostPerCaller int, what string,
) (discount func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.countLocked(from, which, most, mostPerCaller, what); err != nil {
		return nil, err
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.discountLocked(from, which)
	}, nil
}

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
