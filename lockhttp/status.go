package lockhttp

import (
	"cmp"
	_ "embed"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxLosses is how many losses the status page shows.
const maxLosses = 50

// A loss is a lease that ended without a release.
type loss struct {
	key, owner string
	at         time.Time
	held       time.Duration
}

func (s *Server) noteLossLocked(c *claim) {
	s.metrics.losses.Add(1)
	now := time.Now()
	if len(s.losses) == maxLosses {
		s.losses = slices.Delete(s.losses, 0, 1)
	}
	s.losses = append(s.losses, loss{c.id.key, c.id.base, now, now.Sub(c.since)})
	s.warn("lease lost", "key", c.id.key, "owner", c.id.base, "held", now.Sub(c.since))
}

type statusAnswer struct {
	Uptime   int64        `json:"uptime_ms"`
	OpensIn  int64        `json:"grants_in_ms"` // 0 if the server grants leases
	Waiters  int          `json:"waiters"`
	Watchers int          `json:"watchers"`
	Grants   int64        `json:"grants"`
	Lost     int64        `json:"losses"`
	Held     []heldAnswer `json:"held"`
	Waiting  []waitAnswer `json:"waiting"`
	Losses   []lossAnswer `json:"recent_losses"`
}

type heldAnswer struct {
	Key      string `json:"key"`
	Path     string `json:"path"`
	Owner    string `json:"owner"`
	Label    string `json:"label"`
	Shared   bool   `json:"shared"`
	Token    string `json:"token"`
	Since    int64  `json:"held_ms"`
	Deadline int64  `json:"left_ms"`
	Waiters  int    `json:"waiters"`
}

type waitAnswer struct {
	Key     string `json:"key"`
	Path    string `json:"path"`
	Waiters int    `json:"waiters"`
}

type lossAnswer struct {
	Key   string `json:"key"`
	Path  string `json:"path"`
	Owner string `json:"owner"`
	Ago   int64  `json:"ago_ms"`
	Held  int64  `json:"held_ms"`
}

// serveStatus reports what this server knows about the keys that the caller may list.
func (s *Server) serveStatus(w http.ResponseWriter, c *call) {
	now := time.Now()
	a := statusAnswer{
		Uptime: now.Sub(s.started).Milliseconds(), OpensIn: max(0, s.opensAt.Sub(now)).Milliseconds(),
		Grants: s.metrics.grants.Load(), Lost: s.metrics.losses.Load(),
		Held: []heldAnswer{}, Waiting: []waitAnswer{}, Losses: []lossAnswer{},
	}
	s.mu.Lock()
	a.Waiters, a.Watchers = s.total.waiters, s.total.watchers
	leases := make([]*claim, 0, len(s.claims))
	for id, claim := range s.claims {
		if claim.lease != nil && c.caller.may(id.key, List) {
			leases = append(leases, claim)
			a.Held = append(a.Held, heldAnswer{
				Key: id.key, Path: pathOf(id.key), Owner: id.base, Label: claim.label, Shared: claim.shared,
				Since: now.Sub(claim.since).Milliseconds(), Waiters: s.waiters[id.key],
			})
		}
	}
	for key, n := range s.waiters {
		if c.caller.may(key, List) {
			a.Waiting = append(a.Waiting, waitAnswer{key, pathOf(key), n})
		}
	}
	for _, l := range slices.Backward(s.losses) {
		if c.caller.may(l.key, List) {
			a.Losses = append(a.Losses, lossAnswer{l.key, pathOf(l.key), l.owner, now.Sub(l.at).Milliseconds(),
				l.held.Milliseconds()})
		}
	}
	s.mu.Unlock()
	for i, claim := range leases {
		a.Held[i].Token = tokenText(claim.lease.Token())
		a.Held[i].Deadline = max(0, claim.lease.Deadline().Sub(now)).Milliseconds()
	}
	slices.SortFunc(a.Held, func(x, y heldAnswer) int {
		return cmp.Or(strings.Compare(x.Key, y.Key), strings.Compare(x.Owner, y.Owner))
	})
	slices.SortFunc(a.Waiting, func(x, y waitAnswer) int { return strings.Compare(x.Key, y.Key) })
	s.write(w, http.StatusOK, a)
}

//go:embed status.html
var page []byte

//go:embed openapi.json
var openAPI []byte

func (s *Server) servePage(w http.ResponseWriter, _ *call) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "+
			"frame-ancestors 'none'")
	s.writeHeader(w, http.StatusOK)
	_, _ = w.Write(page)
}

func (s *Server) serveOpenAPI(w http.ResponseWriter, _ *call) {
	w.Header().Set("Content-Type", "application/json")
	s.writeHeader(w, http.StatusOK)
	_, _ = w.Write(openAPI)
}
