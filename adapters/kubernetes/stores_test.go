package kubernetes_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/adaptertest"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func onStores(t *testing.T, test func(t *testing.T, url string)) {
	adaptertest.OnStores(t, test, "redis", "etcd", "file")
}

// A term is an interval of leadership.
type term struct {
	who        string
	token      uint64
	begin, end time.Time
}

// Three candidates hand over to each other. No two terms overlap, tokens rise from term to term, and the next leader
// begins long before the TTL of a lease that was released.
func TestTermsOnStores(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		const enough = 12
		c := times{lease: 60 * time.Second, deadline: 30 * time.Second, retry: 50 * time.Millisecond}
		var (
			mu    sync.Mutex
			terms []term
			wg    sync.WaitGroup
		)
		over, finish := context.WithTimeout(context.Background(), time.Minute)
		defer finish()
		for i := range 3 {
			locks, who := adaptertest.Open(t, url), fmt.Sprint("candidate ", i)
			wg.Go(func() {
				for over.Err() == nil {
					leader := newCandidate(t, locks, who, c, true)
					select {
					case <-over.Done():
						leader.cancel(nil)
						<-leader.stopped
						return
					case lease := <-leader.started:
						tm := term{who: who, token: lease.Token(), begin: time.Now()}
						renewedTwice := lease.Deadline().Add(c.retry + c.retry/2)
						storetest.Until(t, storetest.Soon, "renewed", func() bool { return lease.Deadline().After(renewedTwice) })
						tm.end = time.Now()
						leader.cancel(nil)
						<-leader.stopped
						mu.Lock()
						if terms = append(terms, tm); len(terms) == enough {
							finish()
						}
						ours := len(terms)
						mu.Unlock()
						storetest.Until(t, storetest.Soon, "another has led", func() bool {
							mu.Lock()
							defer mu.Unlock()
							return len(terms) > ours || over.Err() != nil
						})
					}
				}
			})
		}
		wg.Wait()
		if len(terms) < enough {
			t.Fatalf("%d terms in a minute", len(terms))
		}
		slices.SortFunc(terms, func(a, b term) int { return cmp.Compare(a.token, b.token) })
		var longest time.Duration
		for i, b := range terms[1:] {
			a := terms[i]
			if !b.begin.After(a.end) || b.token <= a.token || b.who == a.who {
				t.Errorf("two lead: %+v, %+v", a, b)
			}
			longest = max(longest, b.begin.Sub(a.end))
		}
		t.Logf("%d terms, at most %v between two", len(terms), longest)
		if longest > storetest.Soon {
			t.Errorf("%v between two terms", longest)
		}
	})
}

// The next candidate leads when the lease of a killed leader has expired, and not before.
func TestKilledLeaderOnStores(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		locks := adaptertest.Open(t, url)
		leader := newChild(t, url)
		token := leader.token()
		next := newCandidate(t, locks, "next", quick, true)
		if owner := <-next.leaders; !strings.HasSuffix(owner, ":"+strconv.Itoa(leader.cmd.Process.Pid)) {
			t.Errorf("it follows %q, process %d leads", owner, leader.cmd.Process.Pid)
		}
		leader.signal(syscall.SIGKILL)
		_ = leader.cmd.Wait()
		killed := time.Now()
		holder, err := locks.Ops().Inspect(t.Context(), key)
		if err != nil || !holder.Held() {
			t.Fatalf("after the kill: %v, %v", holder, err)
		}
		g := locks.Guarantees()
		lease := next.leads(t, g.Round(quick.lease)+g.MaxLate+quick.mostBetween()+storetest.Soon)
		if took := time.Since(killed); took < holder.TTL-g.Granularity {
			t.Errorf("the next leads %v after the kill, when the lease had %v left", took, holder.TTL)
		} else {
			t.Logf("the next leads %v after the kill, when the lease had %v left", took, holder.TTL)
		}
		if lease.Token() <= token {
			t.Errorf("token %d after %d", lease.Token(), token)
		}
		next.cancel(nil)
		next.stops(t, storetest.Soon)
	})
}

func (c *child) token() uint64 {
	c.t.Helper()
	token, err := strconv.ParseUint(c.says("leads"), 10, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

// A leader that was paused beyond its TTL stops as soon as it continues, and its token is lower than the next leader's.
func TestPausedLeaderOnStores(t *testing.T) {
	storetest.Long(t, "waits for leases to expire")
	onStores(t, func(t *testing.T, url string) {
		locks := adaptertest.Open(t, url)
		leader := newChild(t, url)
		token := leader.token()
		leader.signal(syscall.SIGSTOP)
		next := newCandidate(t, locks, "next", quick, true)
		if lease := next.leads(t, time.Minute); lease.Token() <= token {
			t.Errorf("token %d after %d", lease.Token(), token)
		}
		leader.signal(syscall.SIGCONT)
		// The elector's own deadline has passed too, and it may be the first to notice that.
		if cause := leader.says("stopped"); cause != "<nil>" && !strings.Contains(cause, lock.ErrLost.Error()) {
			t.Errorf("it stopped because of %q", cause)
		}
		if next.lock.Lease() == nil {
			t.Error("the next one no longer leads")
		}
		next.cancel(nil)
		next.stops(t, storetest.Soon)
	})
}

// A leader whose lease is broken stops when it notices, at its next renewal at the latest, and not at RenewDeadline.
func TestBrokenLeaseOnStores(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		locks := adaptertest.Open(t, url)
		c := times{lease: 60 * time.Second, deadline: 30 * time.Second, retry: 100 * time.Millisecond}
		leader := newCandidate(t, adaptertest.Open(t, url), "leader", c, true)
		lease := leader.leads(t, storetest.Soon)
		holder, err := locks.Ops().Inspect(t.Context(), key)
		if err != nil || holder.Owner != lease.Owner() {
			t.Fatalf("%v, %v", holder, err)
		}
		if err := locks.Ops().Break(t.Context(), key, holder.Owner); err != nil {
			t.Fatal(err)
		}
		leader.stops(t, storetest.Soon)
		wantErr(t, "cause", context.Cause(leader.ctx), lock.ErrLost)
		next := newCandidate(t, locks, "next", c, true)
		if later := next.leads(t, storetest.Soon); later.Token() <= lease.Token() {
			t.Errorf("token %d after %d", later.Token(), lease.Token())
		}
		next.cancel(nil)
		next.stops(t, storetest.Soon)
	})
}

// A leader that cannot reach the store stops before its lease ends.
func TestStoreGone(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	c := times{lease: 5 * time.Second, deadline: 2 * time.Second, retry: 100 * time.Millisecond}
	leader := newCandidate(t, adaptertest.Open(t, "redis://"+server.Addr), "leader", c, true)
	lease := leader.leads(t, storetest.Soon)
	server.Kill()
	stopped := leader.stops(t, c.lease)
	if deadline := lease.Deadline(); stopped.After(deadline) {
		t.Errorf("it stopped %v after its lease had ended", stopped.Sub(deadline))
	}
	t.Logf("stopped %v before the end of the lease", lease.Deadline().Sub(stopped))
}
