package memory

import "sync"

// named holds the stores that were opened by the name in a URL, each while it has clients or leases. To lock both, lock
// named.mu before Store.mu.
var named = struct {
	mu     sync.Mutex
	stores map[string]*Store
}{stores: make(map[string]*Store)}

func openNamed(name string) *Backend {
	named.mu.Lock()
	defer named.mu.Unlock()
	s := named.stores[name]
	if s == nil {
		s = NewStore()
		s.name = name
		named.stores[name] = s
	}
	s.clients++
	return newBackend(s, func() {
		named.mu.Lock()
		s.clients--
		named.mu.Unlock()
		forget(s)
	})
}

// forget removes s from named and stops its timer, if s is named and has neither clients nor leases.
func forget(s *Store) {
	named.mu.Lock()
	defer named.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name != "" && s.clients == 0 && len(s.keys) == 0 {
		s.clock.Stop()
		delete(named.stores, s.name)
		s.name = ""
	}
}
