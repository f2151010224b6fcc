package memory

// Len returns the number of keys that are held, or whose lease has expired but is not removed yet.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// Named returns the number of named stores.
func Named() int {
	named.mu.Lock()
	defer named.mu.Unlock()
	return len(named.stores)
}
