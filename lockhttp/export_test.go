package lockhttp

// Routes returns the methods and paths of the server.
func (s *Server) Routes() []string {
	var list []string
	for _, r := range s.routes {
		list = append(list, r.method+" "+r.path)
	}
	return list
}

// InUse returns how much clients use at present.
func (s *Server) InUse() (waiters, leases, watchers, claims, callers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total.waiters, s.total.leases, s.total.watchers, len(s.claims), len(s.usage)
}
