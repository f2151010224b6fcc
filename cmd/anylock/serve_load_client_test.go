//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// loadTTL is longer than an outage, a restart and a pause of a busy machine together.
const loadTTL = 30 * time.Second

// A loadClient acquires leases on random keys through a random server, as the clients in examples/http do. It logs each
// time in which it relied on a lease.
type loadClient struct {
	load *load
	http *http.Client
	done atomic.Int64 // visits
}

// A loadReply is a server's reply. Its status is 0 if none arrived.
type loadReply struct {
	status   int
	text     string
	Lease    string
	Token    string
	Deadline int64 `json:"deadline_ms"`
	sent     time.Time
}

func (c *loadClient) call(
	ctx context.Context, method, key, action string, query url.Values, limit time.Duration,
) (r loadReply) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	server := c.load.servers[mathrand.IntN(len(c.load.servers))].url
	q, err := http.NewRequestWithContext(ctx, method, server+"/v1/locks/"+key+action+"?"+query.Encode(), nil)
	if err != nil {
		panic(err)
	}
	r.sent = time.Now()
	answer, err := c.http.Do(q)
	if err != nil {
		c.load.unanswered.Add(1)
		return r
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.load.unanswered.Add(1)
		return r
	}
	r.status, r.text = answer.StatusCode, string(text)
	if r.status == http.StatusOK {
		if err := json.Unmarshal(text, &r); err != nil {
			c.load.fail("%s %s: %s: %v", method, key, text, err)
		}
	}
	return r
}

// run visits random keys until the context ends.
func (c *loadClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.visit(ctx)
		pause(ctx, upTo(2*time.Second))
	}
}

func upTo(d time.Duration) time.Duration { return mathrand.N(d) }

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// visit acquires a key, holds it for a while, and releases it. One visit in thirty stops waiting after at most a
// second.
func (c *loadClient) visit(ctx context.Context) {
	key := "k" + strconv.Itoa(mathrand.IntN(c.load.keys))
	shared := key[len(key)-1] == '7' && mathrand.IntN(10) < 7
	query := url.Values{"owner": {rand.Text()}, "ttl_ms": {fmt.Sprint(loadTTL.Milliseconds())}}
	began := time.Now()
	wait := ctx
	if mathrand.IntN(30) == 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, upTo(time.Second))
		defer cancel()
	}
	granted, ok := c.acquire(wait, key, shared, query)
	if !ok {
		c.release(key, query, time.Time{})
		return
	}
	c.load.waited(time.Since(began))
	token, err := strconv.ParseUint(granted.Token, 10, 63)
	if err != nil {
		c.load.fail("%s: token %q", key, granted.Token)
	}
	query.Set("lease", granted.Lease)
	v := visit{key: key, owner: query.Get("owner"), token: token, shared: shared, enter: time.Now()}
	deadline := c.hold(ctx, key, query, deadlineOf(granted))
	v.leave = time.Now()
	if v.leave.After(deadline) {
		v.leave = deadline
		c.load.expired.Add(1)
	}
	if v.enter.Before(v.leave) {
		c.load.log.add(v)
		c.done.Add(1)
	}
	c.release(key, query, deadline)
}

func deadlineOf(r loadReply) time.Time {
	return r.sent.Add(time.Duration(r.Deadline) * time.Millisecond)
}

// acquire retries its request until the lease is granted or the context ends.
func (c *loadClient) acquire(ctx context.Context, key string, shared bool, query url.Values) (loadReply, bool) {
	params := url.Values{"wait_ms": {"20000"}, "label": {"load"}, "shared": {strconv.FormatBool(shared)}}
	for name, values := range query {
		params[name] = values
	}
	for ctx.Err() == nil {
		r := c.call(ctx, "PUT", key, "", params, 30*time.Second)
		switch r.status {
		case http.StatusOK:
			return r, true
		case http.StatusLocked:
			continue
		case 0, http.StatusServiceUnavailable, http.StatusTooManyRequests:
		default:
			c.load.fail("acquire %s: %d %s", key, r.status, r.text)
			return r, false
		}
		params.Set("retry", "true")
		pause(ctx, 100*time.Millisecond+upTo(400*time.Millisecond))
	}
	return loadReply{}, false
}

// hold holds the lease, usually briefly and sometimes over several renewals. It returns the last deadline.
func (c *loadClient) hold(ctx context.Context, key string, query url.Values, deadline time.Time) time.Time {
	if mathrand.IntN(12) > 0 {
		pause(ctx, upTo(200*time.Millisecond))
		return deadline
	}
	end := time.Now().Add(upTo(loadTTL))
	if c.load.brief {
		end = time.Now().Add(upTo(2 * time.Second))
	}
	for ctx.Err() == nil && time.Now().Before(end) && time.Now().Before(deadline) {
		pause(ctx, min(time.Until(end), c.load.renewal))
		r := c.call(context.Background(), "POST", key, "/renew", query,
			min(5*time.Second, max(time.Until(deadline), time.Millisecond)))
		for r.status != http.StatusOK && r.status != http.StatusGone && time.Now().Before(deadline) {
			pause(context.Background(), 300*time.Millisecond)
			r = c.call(context.Background(), "POST", key, "/renew", query, 5*time.Second)
		}
		switch {
		case r.status == http.StatusOK:
			deadline = deadlineOf(r)
			c.load.renewals.Add(1)
		case r.status == http.StatusGone && r.sent.Add(time.Second).Before(deadline) && time.Now().Before(deadline):
			c.load.fail("renew %s as %s: lost %v before its deadline: %s", key, query.Get("owner"), time.Until(deadline), r.text)
			return time.Now()
		}
	}
	return deadline
}

// release retries its request until a reply arrives, 40 times at most. If the first reply arrives before deadline, it
// must not report the lease as lost.
func (c *loadClient) release(key string, query url.Values, deadline time.Time) {
	for attempt := 0; attempt < 40; attempt++ {
		r := c.call(context.Background(), "DELETE", key, "", query, 5*time.Second)
		switch r.status {
		case http.StatusNoContent:
			c.load.releases.Add(1)
			return
		case http.StatusGone:
			if attempt == 0 && time.Now().Before(deadline) {
				c.load.fail("release %s as %s: lost %v before its deadline", key, query.Get("owner"), time.Until(deadline))
			}
			return
		case 0, http.StatusServiceUnavailable:
			pause(context.Background(), 500*time.Millisecond)
		default:
			c.load.fail("release %s: %d %s", key, r.status, r.text)
			return
		}
	}
}
