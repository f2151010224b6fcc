package conformance_test

// lastingMutants are bugs that retain data of ended leases.
var lastingMutants = []mutant{
	{"client keeps released leases", "ClientForgetsEndedLeases"},
	{"client keeps owners of refused attempts", "ClientForgetsEndedLeases"},
	{"client keeps owners of cancelled waits", "ClientForgetsEndedLeases"},
	{"client keeps leases that have expired", "ClientForgetsEndedLeases"},
	{"one released lease in 50 leaves a goroutine", "ClientForgetsEndedLeases"},
	{"store keeps a record of each released lease", "StoreForgetsEndedLeases"},
	{"store keeps a record of each refused attempt", "StoreForgetsEndedLeases"},
	{"store keeps a record of each cancelled wait", "StoreForgetsEndedLeases"},
	{"store keeps a record of each expired lease", "StoreForgetsEndedLeases"},
}

// keep retains what for good, if the client has the bug.
func (c *client) keep(bug string, what any) {
	if c.is(bug) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.kept = append(c.kept, what)
	}
}

// recordsLocked counts a record that remains for good, if the store has the bug.
func (s *server) recordsLocked(bug string) {
	if s.is(bug) {
		s.records++
	}
}

// footprint counts the keys in use, and the records that bugs have left.
func (s *server) footprint() (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.records
	for _, e := range s.keys {
		if e.owner != "" || len(e.queue) > 0 || len(e.readers) > 0 {
			n++
		}
	}
	return n, nil
}
