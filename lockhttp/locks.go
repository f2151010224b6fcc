package lockhttp

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock"
)

// millis reads a time in milliseconds, between least and most, from the query. The default is value.
func (c *call) millis(name string, value, least, most time.Duration) (time.Duration, error) {
	text := c.query.Get(name)
	if text == "" {
		return value, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least.Milliseconds() || n > most.Milliseconds() {
		return 0, fmt.Errorf("%w: %s is not a number between %d and %d", lock.ErrInvalid, name, least.Milliseconds(),
			most.Milliseconds())
	}
	return time.Duration(n) * time.Millisecond, nil
}

func (s *Server) serveAcquire(w http.ResponseWriter, c *call) {
	req, err := s.acquisitionOf(c)
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	wait, err := c.millis("wait_ms", 0, 0, 24*time.Hour)
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	claim, err := s.acquire(c.Context(), req, min(wait, s.options.MaxWait))
	s.answerLease(w, c, claim, err)
}

func (s *Server) serveRenew(w http.ResponseWriter, c *call) {
	req, err := s.leaseOf(c)
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	claim, err := s.renew(c.Context(), req)
	s.answerLease(w, c, claim, err)
}

// answerLease replies to a request for a lease, which failed if err is not nil.
func (s *Server) answerLease(w http.ResponseWriter, c *call, claim *claim, err error) {
	if err == nil {
		left := claim.remaining(c.arrived)
		if left < time.Millisecond {
			err = lock.ErrLost
		} else {
			s.write(w, http.StatusOK, leaseAnswer{
				Key: c.key, Path: pathOf(c.key), Owner: c.query.Get("owner"), Lease: claim.lease.Owner(),
				Label: claim.label, Shared: claim.shared, Token: tokenText(claim.lease.Token()), Deadline: left.Milliseconds(),
			})
			return
		}
	}
	if statusOf(err).code != "held" {
		s.fail(w, err, nil)
		return
	}
	holder, ierr := s.holderOf(c, err)
	if ierr != nil {
		s.fail(w, ierr, nil)
		return
	}
	s.fail(w, err, holder)
}

// holderOf returns the holder of the key, for a request that was refused with err. It returns nil if the key is free by
// now.
func (s *Server) holderOf(c *call, err error) (*holderAnswer, error) {
	held, ok := errors.AsType[*lock.HeldError](err)
	if ok && held.Holder.Held() {
		a := newHolderAnswer(c.key, held.Holder)
		return &a, nil
	}
	h, err := s.locks.Ops().Inspect(c.Context(), c.key)
	if err != nil || !h.Held() {
		return nil, err
	}
	a := newHolderAnswer(c.key, h)
	return &a, nil
}

func (s *Server) serveRelease(w http.ResponseWriter, c *call) {
	req, err := s.leaseOf(c)
	if err == nil {
		err = s.releaseOrCancel(c.Context(), req)
	}
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	w.Header().Del("Content-Type")
	s.writeHeader(w, http.StatusNoContent)
}

func (s *Server) serveInspect(w http.ResponseWriter, c *call) {
	h, err := s.locks.Ops().Inspect(c.Context(), c.key)
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	s.write(w, http.StatusOK, newHolderAnswer(c.key, h))
}

func (s *Server) serveBreak(w http.ResponseWriter, c *call) {
	owner := c.query.Get("owner")
	if owner == "" {
		s.fail(w, fmt.Errorf("%w: owner is missing: name the holder as the store knows it", lock.ErrInvalid), nil)
		return
	}
	if err := s.locks.Ops().Break(c.Context(), c.key, owner); err != nil {
		s.fail(w, err, nil)
		return
	}
	s.noticeBreak(c, owner)
	s.warn("lease broken", "key", c.key, "owner", owner, "client", c.caller.id)
	s.writeHeader(w, http.StatusNoContent)
}

// noticeBreak ends the claim of a lease that was broken, because not every store reports that to the holder.
func (s *Server) noticeBreak(c *call, owner string) {
	name, _ := parseLeaseName(owner)
	s.mu.Lock()
	claim := s.claims[claimID{c.key, name.base}]
	s.mu.Unlock()
	if claim == nil || !claim.attemptEnded() || claim.lease == nil || claim.lease.Owner() != owner {
		return
	}
	if err := claim.lease.Renew(c.Context(), claim.ttl); isEnded(err) {
		s.end(claim, true)
	}
}

func (s *Server) serveList(w http.ResponseWriter, c *call) {
	prefix := c.query.Get("prefix")
	if !c.caller.mayUnder(prefix, List) {
		s.refuse(w, status{http.StatusForbidden, "forbidden", false}, "client "+c.caller.name()+" may not list these keys",
			nil)
		return
	}
	discount, err := s.count(c.caller, func(u *usage) *int { return &u.lists }, maxLists, maxListsPerCaller, "lists")
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	defer discount()
	held, err := s.locks.Ops().List(c.Context(), prefix)
	if err != nil {
		s.fail(w, err, nil)
		return
	}
	list := struct {
		Locks []holderAnswer `json:"locks"`
	}{make([]holderAnswer, 0, len(held))}
	for _, k := range held {
		if strings.HasPrefix(k.Key, prefix) && c.caller.may(k.Key, List) {
			list.Locks = append(list.Locks, newHolderAnswer(k.Key, k.Holder))
		}
	}
	s.write(w, http.StatusOK, list)
}
