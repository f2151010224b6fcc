package lockhttp

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// pingTime bounds a request to the store for a health check, and pingAge is how long its answer serves other checks.
const (
	pingTime = 5 * time.Second
	pingAge  = time.Second
)

// health remembers the store's last answer, so that many checks make few requests.
type health struct {
	mu    sync.Mutex
	asked time.Time
	err   error
	known bool
}

// ping asks the store unless it has answered a moment ago.
func (s *Server) ping(ctx context.Context) error {
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known && time.Since(h.asked) < pingAge {
		return h.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTime)
	defer cancel()
	h.err = s.locks.Ops().Ping(ctx)
	h.asked, h.known = time.Now(), true
	return h.err
}

type healthAnswer struct {
	Status string `json:"status"`
}

// serveHealth reports whether the store answers, so that a load balancer sends requests to a server that can serve
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
