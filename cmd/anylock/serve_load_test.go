//go:build unix

package main

import (
	"context"
	"encoding/json"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// loadVariable names the environment variable with the duration of the full TestServeUnderLoad, such as 10m. "make
// serve-load" sets it. Without it the test is short and has few clients.
const loadVariable = "ANYLOCK_SERVE_LOAD"

// A load is one run of TestServeUnderLoad.
type load struct {
	t       *testing.T
	servers []*served
	store   *servers.Server
	keys    int
	brief   bool
	renewal time.Duration // between two renewals
	log     visitLog

	renewals, releases, unanswered, expired atomic.Int64

	mu     sync.Mutex
	waits  []time.Duration
	faults map[string]int
	failed int
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 20
	if l.failed++; l.failed <= most {
		l.t.Errorf(format, args...)
	}
}

func (l *load) waited(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = append(l.waits, d)
}

// Clients of two servers on one Redis exclude each other and lose no lease while the servers are killed, ended or
// frozen, and Redis is frozen, or killed and restarted with its data. The visits are logged by the clients alone.
func TestServeUnderLoad(t *testing.T) {
	storetest.Long(t, "load and failures for some seconds")
	clients, duration := 40, 6*time.Second
	text := os.Getenv(loadVariable)
	if text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", loadVariable, err)
		}
		clients = 1000
	}
	store := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	l := &load{t: t, store: store, keys: clients / 4, brief: text == "", renewal: loadTTL / 3,
		faults: make(map[string]int)}
	if l.brief {
		l.renewal = time.Second
	}
	for range 2 {
		l.servers = append(l.servers, serveOn(t, "redis://"+store.Addr))
	}
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	list := make([]*loadClient, clients)
	var working sync.WaitGroup
	for i := range list {
		c := &loadClient{load: l, http: &http.Client{Transport: transport}}
		list[i] = c
		working.Go(func() { c.run(ctx) })
	}
	begun := time.Now()
	for time.Since(begun) < duration {
		l.disturb(duration)
	}
	l.awaitEveryClient(list)
	took := time.Since(begun)
	cancel()
	working.Wait()
	for _, wrong := range l.log.check() {
		l.fail("%s", wrong)
	}
	l.awaitFree()
	l.report(clients, took)
}

// disturb lets the clients work for a moment, and then causes one failure.
func (l *load) disturb(duration time.Duration) {
	calm, outage := upTo(8*time.Second), 500*time.Millisecond+upTo(3*time.Second)
	if l.brief {
		calm, outage = upTo(duration/4), upTo(time.Second)
	}
	pause(l.t.Context(), calm)
	s := l.servers[mathrand.IntN(len(l.servers))]
	names := []string{"server killed", "both servers killed", "server ended by SIGTERM", "server frozen", "store frozen",
		"store killed"}
	name := names[mathrand.IntN(len(names))]
	switch name {
	case "server killed":
		s.kill()
		l.start(s)
	case "both servers killed":
		for _, s := range l.servers {
			s.kill()
		}
		for _, s := range l.servers {
			l.start(s)
		}
	case "server ended by SIGTERM":
		l.signal(s, syscall.SIGTERM)
		if err := s.cmd.Wait(); err != nil {
			l.fail("serve ended with %v", err)
		}
		l.start(s)
	case "server frozen":
		l.signal(s, syscall.SIGSTOP)
		pause(l.t.Context(), outage)
		l.signal(s, syscall.SIGCONT)
	case "store frozen":
		l.store.Freeze()
		pause(l.t.Context(), outage)
		l.store.Thaw()
	case "store killed":
		l.store.Kill()
		pause(l.t.Context(), outage)
		l.store.Start()
	}
	l.faults[name]++
}

// start restarts a server. It retries if the store does not respond in time on a busy machine.
func (l *load) start(s *served) {
	const patience = time.Minute
	for end := time.Now().Add(patience); ; {
		err := s.tryStart()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			l.t.Fatalf("serve did not start: %v", err)
		}
	}
}

func (l *load) signal(s *served, signal syscall.Signal) {
	if err := s.cmd.Process.Signal(signal); err != nil {
		l.fail("%v: %v", signal, err)
	}
}

// awaitEveryClient waits until each client has had a lease since the last failure. It fails the test if no further
// client gets a lease for 4 loadTTL.
func (l *load) awaitEveryClient(list []*loadClient) {
	before := make([]int64, len(list))
	for i, c := range list {
		before[i] = c.done.Load()
	}
	const patience = 4 * loadTTL
	served, since := 0, time.Now()
	for served < len(list) {
		n := 0
		for i, c := range list {
			if c.done.Load() > before[i] {
				n++
			}
		}
		switch {
		case n > served:
			served, since = n, time.Now()
		case time.Since(since) > patience:
			l.fail("%d of %d clients had no lease after the last failure, and no further one for %v", len(list)-n, len(list),
				patience)
			return
		}
		time.Sleep(50 * time.Millisecond) // sleeps: between two reads of the counts
	}
}

// awaitFree waits until no key is held. Only leases that a killed server did not report to the client may last until
// their TTL ends.
func (l *load) awaitFree() {
	end := time.Now().Add(loadTTL + 10*time.Second)
	for {
		var list struct {
			Locks []struct{ Key, Owner string }
		}
		code, text := l.servers[0].do("GET", "/v1/locks", "")
		if err := json.Unmarshal([]byte(text), &list); code != http.StatusOK || err != nil {
			l.fail("list: %d %s", code, text)
			return
		}
		switch {
		case len(list.Locks) == 0:
			return
		case time.Now().After(end):
			l.fail("%d keys are still held, one of them %+v", len(list.Locks), list.Locks[0])
			return
		}
		time.Sleep(200 * time.Millisecond) // sleeps: between two requests
	}
}

func (l *load) report(clients int, took time.Duration) {
	slices.Sort(l.waits)
	n := len(l.waits)
	// On a busy machine a few clients cannot renew in time.
	expired := int(l.expired.Load())
	if expired > n/100 {
		l.fail("%d of %d leases expired although their clients renewed them", expired, n)
	}
	if n == 0 {
		l.fail("nothing was granted")
		return
	}
	readers := 0
	for _, v := range l.log.visits {
		if v.shared {
			readers++
		}
	}
	l.t.Logf("%d clients, %v: %d grants (%d shared), %d renewals, %d releases, %d expired, %d requests without an answer",
		clients, took.Round(time.Second), n, readers, l.renewals.Load(), l.releases.Load(), expired, l.unanswered.Load())
	l.t.Logf("waits: median %v, 99 %% %v, longest %v", l.waits[n/2].Round(time.Millisecond),
		l.waits[n*99/100].Round(time.Millisecond), l.waits[n-1].Round(time.Millisecond))
	for name, n := range l.faults {
		l.t.Logf("%d times %s", n, name)
	}
}
