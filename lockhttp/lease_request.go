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
func (s *Server) leaseOf(c *call) (req leaseRequest, err error) {
	base, err := baseOwner(c.query.Get("owner"), c.caller.name())
	if err != nil {
		return req, err
	}
	req = leaseRequest{id: claimID{c.key, base}, caller: c.caller}
	if req.ttl, err = c.millis("ttl_ms", s.options.DefaultTTL, time.Millisecond, s.options.MaxTTL); err != nil {
		return req, err
	}
	if text := c.query.Get("lease"); text != "" {
		name, ok := parseLeaseName(text)
		if !ok || name.base != base {
			return req, fmt.Errorf("%w: lease is not a lease of this owner", lock.ErrInvalid)
		}
		req.name = name
	}
	return req, nil
}

// acquisitionOf is like leaseOf, for a request that may acquire the lease.
func (s *Server) acquisitionOf(c *call) (req leaseRequest, err error) {
	if req, err = s.leaseOf(c); err != nil {
		return req, err
	}
	req.label = c.query.Get("label")
	if err = validateLabel(req.label); err != nil {
		return req, err
	}
	if req.shared, err = c.flag("shared"); err != nil {
		return req, err
	}
	if req.retry, err = c.flag("retry"); err != nil {
		return req, err
	}
	switch {
	case req.name.base == "":
	case req.retry:
		return req, fmt.Errorf("%w: a request with lease is no retry of one without a reply", lock.ErrInvalid)
	case req.name.shared != req.shared:
		return req, fmt.Errorf("%w: lease is of the other mode", lock.ErrInvalid)
	default:
		req.label = req.name.label
	}
	return req, nil
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
