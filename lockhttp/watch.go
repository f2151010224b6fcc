package lockhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/anylock/lock"
)

// pulseTime is the time between two comments that keep a stream alive.
const pulseTime = 10 * time.Second

// serveWatch streams server-sent events: "held" at once, then "lost", "released" or "shutting_down" at the end.
func (s *Server) serveWatch(w http.ResponseWriter, c *call) {
	// before all else, because a stream that is refused must not extend the lease
	discount, err := s.count(c.caller, func(u *usage) *int { return &u.watchers }, s.options.MaxWatchers,
		s.options.MaxWatchersPerClient, "streams")
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	defer discount()
	claim, err := s.watched(c)
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s.writeHeader(w, http.StatusOK)
	if s.send(w, "held", tokenText(claim.lease.Token())) == nil {
		s.stream(w, c, claim)
	}
}

// watched returns the claim to watch. If it has to resume the lease, the lease gets the TTL of the request.
func (s *Server) watched(c *call) (*claim, error) {
	req, err := s.leaseOf(c)
	if err != nil {
		return nil, err
	}
	if c.query.Get("ttl_ms") == "" {
		req.ttl = 0 // another TTL than the client's could end the lease before the deadline that the client knows
	}
	claim, _, err := s.find(c.Context(), req)
	if err != nil {
		return nil, err
	}
	if claim.lease.Err() != nil {
		err = lock.ErrLost
	}
	s.endRequest(c.Context(), claim, err)
	return claim, err
}

// stream writes until the lease, the connection or the server ends.
func (s *Server) stream(w http.ResponseWriter, c *call, claim *claim) {
	pulse := time.NewTicker(pulseTime)
	defer pulse.Stop()
	for {
		// HTTP/2 would reset the stream at the deadline of the last event, although no write is under way.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // not supported by test recorders
		select {
		case <-claim.whenEnded:
			event := "released"
			if claim.lost {
				event = "lost"
			}
			_ = s.send(w, event, "")
			return
		case <-s.stopping:
			_ = s.send(w, "shutting_down", "")
			return
		case <-c.Context().Done():
			return
		case <-pulse.C:
			if s.send(w, "", "") != nil {
				return
			}
		}
	}
}

// send writes one event, or a comment if it has no name.
func (s *Server) send(w http.ResponseWriter, event, token string) error {
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	text := ":\n\n"
	if event != "" {
		data, err := json.Marshal(struct {
			Token string `json:"token,omitempty"`
		}{token})
		if err != nil {
			return err
		}
		text = fmt.Sprintf("event: %s\ndata: %s\n\n", event, data)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	return control.Flush()
}
