package lockhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/anylock/lock"
)

// A leaseAnswer describes a lease to its holder.
type leaseAnswer struct {
	Key      string `json:"key"` // bytes that are not UTF-8 are replaced
	Path     string `json:"path"`
	Owner    string `json:"owner"` // as the client sent it
	Lease    string `json:"lease"` // the owner at the store
	Label    string `json:"label"`
	Shared   bool   `json:"shared"`
	Token    string `json:"token"`       // a decimal number; empty if the store has none
	Deadline int64  `json:"deadline_ms"` // counts from just before the client sent the request
}

// A holderAnswer describes who holds a key.
type holderAnswer struct {
	Key     string `json:"key"`
	Path    string `json:"path"`
	Held    bool   `json:"held"`
	Shared  int    `json:"shared"` // how many shared leases; 0 if the lease is exclusive
	Owner   string `json:"owner"`  // as the store knows it; of shared leases, the one that ends last
	Label   string `json:"label"`
	Token   string `json:"token"`
	TTL     *int64 `json:"ttl_ms"`  // null if the store does not know
	Waiters *int   `json:"waiters"` // at the store; null if it does not know
}

// An errorAnswer is the body of every reply with a status of 400 or above, except 423 to Terraform.
type errorAnswer struct {
	Code    string        `json:"code"`
	Message string        `json:"message"`
	Holder  *holderAnswer `json:"holder,omitempty"`
}

func newHolderAnswer(key string, h lock.Holder) holderAnswer {
	a := holderAnswer{
		Key: key, Path: pathOf(key), Held: h.Held(), Shared: h.Shared,
		Owner: h.Owner, Label: labelOf(h), Token: tokenText(h.Token),
	}
	if h.TTL > 0 {
		ms := h.TTL.Milliseconds()
		a.TTL = &ms
	}
	if h.Waiters >= 0 {
		a.Waiters = &h.Waiters
	}
	return a
}

func tokenText(token uint64) string {
	if token == 0 {
		return ""
	}
	return strconv.FormatUint(token, 10)
}

// pathOf returns the path of a key, which may contain any bytes.
func pathOf(key string) string { return locksPath + "/" + url.PathEscape(key) }

// A status describes the reply for an error.
type status struct {
	http  int
	code  string
	retry bool // a later request may succeed
}

// statusOf returns the status of the reply for err.
func statusOf(err error) status {
	switch {
	case errors.Is(err, errStopping):
		return status{http.StatusServiceUnavailable, "shutting_down", true}
	case errors.Is(err, errStarting):
		return status{http.StatusServiceUnavailable, "starting", true}
	case errors.Is(err, errLimit):
		return status{http.StatusTooManyRequests, "too_many", true}
	case errors.Is(err, errReleased):
		return status{http.StatusConflict, "released", false}
	case errors.Is(err, lock.ErrInvalid):
		return status{http.StatusBadRequest, "invalid", false}
	case errors.Is(err, lock.ErrUnsupported):
		return status{http.StatusNotImplemented, "unsupported", false}
	case isEnded(err):
		return status{http.StatusGone, "lost", false}
	case errors.Is(err, lock.ErrClosed):
		return status{http.StatusServiceUnavailable, "shutting_down", true}
	case errors.Is(err, lock.ErrHeld):
		return status{http.StatusLocked, "held", true}
	}
	return status{http.StatusServiceUnavailable, "unavailable", true}
}

// fail replies with err.
func (s *Server) fail(w http.ResponseWriter, err error, holder *holderAnswer) {
	st := statusOf(err)
	if st.http == http.StatusServiceUnavailable && st.code == "unavailable" && !errors.Is(err, context.Canceled) {
		s.warn("request failed", "error", err)
	}
	s.refuse(w, st, err.Error(), holder)
}

func (s *Server) refuse(w http.ResponseWriter, st status, message string, holder *holderAnswer) {
	if st.retry {
		w.Header().Set("Retry-After", "1")
	}
	s.write(w, st.http, errorAnswer{Code: st.code, Message: message, Holder: holder})
}

// writeTime is how long a peer may take to read a reply.
const writeTime = 10 * time.Second

func (s *Server) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	s.writeHeader(w, code)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // fails only if the peer has disconnected
}

// writeHeader writes the header of a reply.
func (s *Server) writeHeader(w http.ResponseWriter, code int) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // not supported by test recorders
	w.WriteHeader(code)
}
