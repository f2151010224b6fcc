package lockhttp

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// metrics are counters since the start.
type metrics struct {
	grants, losses atomic.Int64

	mu       *sync.Mutex
	requests map[requestKind]*requestCount
}

type requestKind struct {
	method, path string
	code         int
}

type requestCount struct {
	number int64
	took   time.Duration
}

func newMetrics() metrics {
	return metrics{mu: new(sync.Mutex), requests: make(map[requestKind]*requestCount)}
}

// count counts a reply. Requests without a route all count under one method, so that the number of counters is bounded.
func (m *metrics) count(method, path string, code int, took time.Duration) {
	if path == "none" {
		method = "other"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	kind := requestKind{method, path, code}
	n := m.requests[kind]
	if n == nil {
		n = new(requestCount)
		m.requests[kind] = n
	}
	n.number++
	n.took += took
}

func (s *Server) serveMetrics(w http.ResponseWriter, _ *call) {
	s.mu.Lock()
	total, attempts := s.total, 0
	for _, c := range s.claims {
		if c.lease == nil {
			attempts++
		}
	}
	s.mu.Unlock()
	var text bytes.Buffer // a client that reads slowly must not keep metrics.mu locked
	metric := func(name, kind, help string, value int64) {
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", name, help, name, kind, name, value)
	}
	metric("anylock_leases", "gauge", "Leases that clients of this server hold.", int64(total.leases-attempts))
	metric("anylock_waiters", "gauge", "Requests that wait for a busy key.", int64(total.waiters))
	metric("anylock_watchers", "gauge", "Open event streams.", int64(total.watchers))
	metric("anylock_grants_total", "counter", "Leases granted or resumed.", s.metrics.grants.Load())
	metric("anylock_losses_total", "counter", "Leases that ended without a release.", s.metrics.losses.Load())
	s.metrics.writeRequests(&text)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	s.writeHeader(w, http.StatusOK)
	_, _ = text.WriteTo(w)
}

func (m *metrics) writeRequests(w io.Writer) {
	const count, took = "anylock_http_requests_total", "anylock_http_request_seconds_total"
	m.mu.Lock()
	defer m.mu.Unlock()
	kinds := slices.SortedFunc(maps.Keys(m.requests), func(a, b requestKind) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.method, b.method), cmp.Compare(a.code, b.code))
	})
	fmt.Fprintf(w, "# HELP %s Answers, by path, method and status.\n# TYPE %s counter\n", count, count)
	for _, k := range kinds {
		fmt.Fprintf(w, "%s{path=%q,method=%q,code=\"%d\"} %d\n", count, k.path, k.method, k.code, m.requests[k].number)
	}
	fmt.Fprintf(w, "# HELP %s Time until these answers, waits included.\n# TYPE %s counter\n", took, took)
	for _, k := range kinds {
		fmt.Fprintf(w, "%s{path=%q,method=%q,code=\"%d\"} %g\n", took, k.path, k.method, k.code, m.requests[k].took.Seconds())
	}
}
