package conformance_test

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// restartLocked applies the bugs of a restart to one key.
func (s *server) restartLocked(key string, e *entry) {
	now := time.Now()
	began := e.granted
	if !e.renewed.IsZero() {
		began = e.renewed
	}
	forgets := s.is("restart forgets keys with a NUL") && strings.Contains(key, "\x00") ||
		s.is("restart forgets keys that are not UTF-8") && !utf8.ValidString(key) ||
		s.is("restart takes a newline for the end of a key") && strings.Contains(key, "\n") ||
		s.is("restart forgets keys over 255 bytes") && len(key) > 255 ||
		s.is("restart ends leases that were waited for") && e.waited ||
		s.is("restart drops leases with less than 500 ms left") && e.expires.Sub(now) < 500*time.Millisecond ||
		s.is("restart drops leases of disconnected clients") && e.client.isDisconnected()
	remaining, brief := e.expires.Sub(now), 100*time.Millisecond
	nearEnd := remaining > brief && remaining < 5*brief
	disconnected := e.client.isDisconnected()
	if e.restored = e.owner != ""; e.timer != nil && s.is("lease that outlives a restart has no timer") {
		e.timer.Stop()
	}
	if s.restartDiffers(key, e) {
		return
	}
	switch {
	case nearEnd && s.is("restart keeps leases with less than 500 ms left for good"),
		disconnected && s.is("restart keeps leases of disconnected clients for good"):
		e.expires = now.Add(noExpiry)
	case disconnected && s.is("client that was disconnected at a restart loses its leases when it reconnects"):
		e.owner += ", before the restart"
	case s.is("restart brings a released lease back") && e.owner == "" && e.gaveUp != "":
		e.owner = e.gaveUp
	case e.owner == "":
	case forgets:
		e.owner = ""
	case s.is("restart counts the tokens of keys over 255 bytes up") && len(key) > 255:
		e.token++
	case s.is("restart begins leases anew for their last TTL"):
		e.expires = now.Add(e.expires.Sub(began))
	case s.is("restart puts shortened leases back to their first TTL") && e.granted.Add(e.ttl).After(e.expires):
		e.expires = e.granted.Add(e.ttl)
	case s.is("lease that ends as the store restarts begins anew") && e.expires.Sub(now) < 100*time.Millisecond:
		e.expires = now.Add(e.ttl)
	case s.is("lease of a closed client never ends after a restart") && e.client != nil && e.client.leases.Closed():
		e.expires = now.Add(noExpiry)
	}
}

// queueOverRestart returns the queue after a restart. Without a bug, the queue is empty, because waiters repeat their
// requests.
func (s *server) queueOverRestart(queue []*place) []*place {
	if !s.is("restart keeps the places of waiters that ask again") {
		return nil
	}
	for i, p := range queue {
		ghost := *p
		ghost.Owner += ", before the restart"
		queue[i] = &ghost
	}
	return queue
}

// missesRestart reports whether a waiter is not notified of a restart, as a bug.
func (c *client) missesRestart(p *place) bool {
	const heard = 4
	return c.is("restart parks all but the first four waiters") && p.before >= heard
}

// releaseMissesOdd reports whether a release finds nothing because of its key, as a bug.
func (s *server) releaseMissesOdd(key string) bool {
	odd := "release of an odd key finds nothing after a restart"
	return s.restarts > 0 && s.is(odd) && strings.ContainsAny(key, "\x00\n")
}

// takesNextAlong removes two places instead of place i, as a bug: also the next place, or the place before if i is the
// last. It reports whether it did.
func (s *server) takesNextAlong(e *entry, i int) bool {
	if s.restarts == 0 || !s.is("waiter that leaves after a restart takes the next along") {
		return false
	}
	from := max(0, min(i, len(e.queue)-2))
	e.queue = slices.Delete(e.queue, from, min(from+2, len(e.queue)))
	return true
}

// isDisconnected reports whether c had a connection and cannot have one now.
func (c *client) isDisconnected() bool {
	if c == nil || c.wire == nil {
		return false
	}
	closed, _, _ := c.wire.outOfContact()
	return closed && c.wasCut()
}
