package lockhttp

import (
	"fmt"
	"time"

	"github.com/anylock/lock"
)

// A leaseRequest describes the lease that a request is about.
type leaseRequest struct {
	id     claimID
	caller caller
	ttl    time.Duration // 0: a stream, which must not change the TTL

	// Set only for an acquisition:
	label  string
	shared bool
	retry  bool // no reply to the owner's earlier requests has arrived

	name leaseName // at the store, from an earlier reply; zero if the client did not send it
}

// leaseOf parses which lease a request is about, and the request's TTL.
func (s *Server) leaseOf(c *call) (w leaseRequest, err error) {
	base, err := baseOwner(c.query.Get("owner"), c.caller.name())
	if err != nil {
		return w, err
	}
	w = leaseRequest{id: claimID{c.key, base}, caller: c.caller}
	if w.ttl, err = c.millis("ttl_ms", s.options.DefaultTTL, time.Millisecond, s.options.MaxTTL); err != nil {
		return w, err
	}
	if text := c.query.Get("lease"); text != "" {
		name, ok := parseLeaseName(text)
		if !ok || name.base != base {
			return w, fmt.Errorf("%w: lease is not a lease of this owner", lock.ErrInvalid)
		}
		w.name = name
	}
	return w, nil
}

// acquisitionOf is like leaseOf, for a request that may acquire the lease.
func (s *Server) acquisitionOf(c *call) (w leaseRequest, err error) {
	if w, err = s.leaseOf(c); err != nil {
		return w, err
	}
	w.label = c.query.Get("label")
	if err = validateLabel(w.label); err != nil {
		return w, err
	}
	if w.shared, err = c.flag("shared"); err != nil {
		return w, err
	}
	if w.retry, err = c.flag("retry"); err != nil {
		return w, err
	}
	switch {
	case w.name.base == "":
	case w.retry:
		return w, fmt.Errorf("%w: a request with lease is no retry of one without a reply", lock.ErrInvalid)
	case w.name.shared != w.shared:
		return w, fmt.Errorf("%w: lease is of the other mode", lock.ErrInvalid)
	default:
		w.label = w.name.label
	}
	return w, nil
}

// flag parses a parameter that is true or false. The default is false.
func (c *call) flag(name string) (bool, error) {
	switch c.query.Get(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, fmt.Errorf("%w: %s is neither true nor false", lock.ErrInvalid, name)
}
