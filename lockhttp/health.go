package lockhttp

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// pingTime limits a health check's request to the store, and pingAge is how long other checks reuse its result.
const (
	pingTime = 5 * time.Second
	pingAge  = time.Second
)

// health caches the result of the last request to the store, so that many checks make few requests.
type health struct {
	mu      sync.Mutex
	checked time.Time // when the last result arrived
	err     error
	known   bool
}

// ping makes a request to the store, unless the last result is younger than pingAge.
func (s *Server) ping(ctx context.Context) error {
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known && time.Since(h.checked) < pingAge {
		return h.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTime)
	defer cancel()
	h.err = s.locks.Ops().Ping(ctx)
	h.checked, h.known = time.Now(), true
	return h.err
}

type healthAnswer struct {
	Status string `json:"status"`
}

// serveHealth reports whether the store responds, so that a load balancer sends requests only to servers that can serve
// them.
func (s *Server) serveHealth(w http.ResponseWriter, c *call) {
	select {
	case <-s.stopping:
		s.fail(w, errStopping, nil)
		return
	default:
	}
	if err := s.ping(c.Context()); err != nil {
		s.refuse(w, status{http.StatusServiceUnavailable, "unavailable", true}, "the store does not answer", nil)
		return
	}
	s.write(w, http.StatusOK, healthAnswer{"ok"})
}
