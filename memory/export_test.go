package memory

// Len is the number of keys that are held, swept or not.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// Named is the number of named stores.
func Named() int {
	named.mu.Lock()
	defer named.mu.Unlock()
	return len(named.stores)
}
