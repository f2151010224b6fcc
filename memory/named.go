package memory

import "sync"

// named holds the stores that URLs name, each for as long as it has clients or leases. Lock it before a Store.
var named = struct {
	mu     sync.Mutex
	stores map[string]*namedStore
	names  map[*Store]string
}{stores: make(map[string]*namedStore), names: make(map[*Store]string)}

type namedStore struct {
	*Store
	clients int
}

func openNamed(name string) *Backend {
	named.mu.Lock()
	defer named.mu.Unlock()
	n := named.stores[name]
	if n == nil {
		n = &namedStore{Store: NewStore()}
		named.stores[name] = n
		named.names[n.Store] = name
	}
	n.clients++
	return newBackend(n.Store, func() {
		named.mu.Lock()
		n.clients--
		named.mu.Unlock()
		forget(n.Store)
	})
}

// forget drops a named store that has neither clients nor leases.
func forget(s *Store) {
	named.mu.Lock()
	defer named.mu.Unlock()
	name, ok := named.names[s]
	if !ok || named.stores[name].clients > 0 {
		return
	}
	if s.heldLen() == 0 {
		s.discard()
		delete(named.stores, name)
		delete(named.names, s)
	}
}
