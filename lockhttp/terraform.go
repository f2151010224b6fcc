package lockhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/anylock/lock"
)

// The methods of the http backend of Terraform and OpenTofu.
const (
	methodLock   = "LOCK"
	methodUnlock = "UNLOCK"
)

// A lockInfo is the part of Terraform's lock information that the server needs. Terraform sends the information with
// LOCK and UNLOCK. If the state is locked, it expects all of the holder's information in the reply.
type lockInfo struct {
	ID string
}

// terraformLease returns the lease that a request of Terraform names.
func (s *Server) terraformLease(c *call) (req leaseRequest, err error) {
	var info lockInfo
	if err := json.Unmarshal(c.body, &info); err != nil {
		return req, fmt.Errorf("%w: the body is not Terraform's lock information", lock.ErrInvalid)
	}
	base, err := baseOwner(info.ID, c.caller.name())
	return leaseRequest{id: claimID{c.key, base}, caller: c.caller, ttl: s.options.DefaultTTL}, err
}

// serveTerraformLock acquires the key for the TTL of the request. The default is the longest TTL that the server
// allows, because Terraform does not renew.
func (s *Server) serveTerraformLock(w http.ResponseWriter, c *call) {
	req, err := s.terraformLease(c)
	var wait time.Duration
	if err == nil {
		req.ttl, err = c.millis("ttl_ms", s.options.MaxTTL, time.Millisecond, s.options.MaxTTL)
	}
	if err == nil {
		wait, err = c.millis("wait_ms", 0, 0, 24*time.Hour)
	}
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	claim, err := s.acquire(c.Context(), req, min(wait, s.options.MaxWait))
	switch {
	case err == nil:
		s.mu.Lock()
		claim.info = c.body
		s.mu.Unlock()
		s.writeRaw(w, http.StatusOK, c.body)
	case statusOf(err).code != "held":
		s.fail(w, err, nil)
	default:
		s.terraformHeld(w, c, err)
	}
}

// terraformHeld replies with the holder's lock information. If another server granted the lease, or this one before a
// restart, only the holder's ID is known.
func (s *Server) terraformHeld(w http.ResponseWriter, c *call, err error) {
	holder, ierr := s.holderOf(c, err)
	if ierr != nil {
		s.fail(w, ierr, nil)
		return
	}
	var info []byte
	base := ""
	if holder != nil {
		name, _ := parseLeaseName(holder.Owner)
		base = name.base
		s.mu.Lock()
		if claim := s.claims[claimID{c.key, base}]; claim != nil {
			info = claim.info
		}
		s.mu.Unlock()
	}
	if info == nil {
		known, merr := json.Marshal(lockInfo{ID: strings.TrimSuffix(base, "@"+c.caller.name())})
		if merr != nil {
			s.fail(w, errors.Join(err, merr), nil)
			return
		}
		info = known
	}
	s.writeRaw(w, http.StatusLocked, info)
}

// serveTerraformUnlock releases the lock. Terraform's force-unlock sends no lock information; the lease then ends,
// whoever holds it.
func (s *Server) serveTerraformUnlock(w http.ResponseWriter, c *call) {
	if body := bytes.TrimSpace(c.body); len(body) == 0 || string(body) == "null" {
		s.forceUnlock(w, c)
		return
	}
	req, err := s.terraformLease(c)
	if err == nil {
		err = s.releaseOrCancel(c.Context(), req)
	}
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	s.writeHeader(w, http.StatusOK)
}

func (s *Server) forceUnlock(w http.ResponseWriter, c *call) {
	if !c.caller.may(c.key, Break) {
		s.refuse(w, status{http.StatusForbidden, "forbidden", false},
			"client "+c.caller.name()+" may not break the locks of others", nil)
		return
	}
	h, err := s.locks.Ops().Inspect(c.Context(), c.key)
	if err == nil && h.Held() {
		if err = s.locks.Ops().Break(c.Context(), c.key, h.Owner); err == nil {
			s.noticeBreak(c, h.Owner)
			s.warn("lease broken by force-unlock", "key", c.key, "owner", h.Owner, "client", c.caller.id)
		}
	}
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	s.writeHeader(w, http.StatusOK)
}

func (s *Server) writeRaw(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	s.writeHeader(w, code)
	_, _ = w.Write(body)
}
