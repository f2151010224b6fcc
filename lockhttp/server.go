package lockhttp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/anylock/lock"
)

// Options configure a Server. A zero field has the default that its comment names.
type Options struct {
	Clients []Client // clients and their rights; without any, everybody may do everything

	DefaultTTL time.Duration // of a request that names none, at most MaxTTL; 30 s, or MaxTTL if that is shorter
	MaxTTL     time.Duration // the longest TTL of a request; 1 h, or 1 min where keys are free when the server ends
	MaxWait    time.Duration // the longest that one request waits; 1 min; a negative value means 0
	Linger     time.Duration // how long a waiter keeps its place after its request has ended; 2 s

	// StartDelay is how long the server grants nothing after its start. If keys are free when the server ends (in memory,
	// or with its connection to the store), the default is MaxTTL, otherwise 0. A negative value means 0.
	StartDelay time.Duration

	MaxBody              int64 // of a request, in bytes; 64 KiB
	MaxWaiters           int   // requests that wait at once; 20 000
	MaxWaitersPerClient  int   // of one client or address; 2 000
	MaxLeases            int   // held or being acquired at once; 100 000
	MaxLeasesPerClient   int   // of one client or address; 10 000
	MaxWatchers          int   // streams at once; 10 000
	MaxWatchersPerClient int   // of one client or address; 1 000

	// Hosts are the host names that a request may name, without ports. Without any, every host is served. A server on a
	// loopback address without Clients needs Hosts. Otherwise the owner of a web page can point a name to 127.0.0.1,
	// through which the page then reaches the server.
	Hosts []string

	Logger *slog.Logger // of losses and failed requests; nothing is logged by default; it may block
}

// endWithServer reports whether a store may end leases early because the process that acquired them, or its connection
// or session, has ended. Others may then get the keys while the holders still rely on them.
func endWithServer(g lock.Guarantees) bool {
	return g.Reach == lock.ReachProcess || strings.Contains(g.EarlyLoss, "connection") ||
		strings.Contains(g.EarlyLoss, "session")
}

func (o Options) withDefaults(locks *lock.Locker) Options {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	limit := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	ends := endWithServer(locks.Guarantees())
	if ends {
		set(&o.MaxTTL, time.Minute)
	}
	set(&o.MaxTTL, time.Hour)
	if longest := locks.Guarantees().MaxTTL; longest > 0 {
		o.MaxTTL = min(o.MaxTTL, longest)
	}
	set(&o.DefaultTTL, min(lock.DefaultTTL, o.MaxTTL))
	set(&o.MaxWait, time.Minute)
	o.MaxWait = max(0, o.MaxWait)
	set(&o.Linger, 2*time.Second)
	if ends {
		set(&o.StartDelay, o.MaxTTL)
	}
	if o.MaxBody == 0 {
		o.MaxBody = 64 << 10
	}
	limit(&o.MaxWaiters, 20_000)
	limit(&o.MaxWaitersPerClient, 2_000)
	limit(&o.MaxLeases, 100_000)
	limit(&o.MaxLeasesPerClient, 10_000)
	limit(&o.MaxWatchers, 10_000)
	limit(&o.MaxWatchersPerClient, 1_000)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Server is an http.Handler in front of a Locker. It is safe for concurrent use.
type Server struct {
	locks   *lock.Locker
	options Options
	access  access
	routes  []route
	origins *http.CrossOriginProtection
	started time.Time
	opensAt time.Time // nothing is granted before this time
	health  health
	metrics metrics

	background sync.WaitGroup // attempts and releases without a request
	stopping   chan struct{}
	logging    chan struct{} // has an element for each message that is being logged

	mu       sync.Mutex
	stopped  bool
	claims   map[claimID]*claim
	resuming map[claimID]chan struct{} // closed when the request that resumes the lease has ended
	usage    map[string]*usage         // by caller
	waiters  map[string]int            // by key
	total    usage
	losses   []loss // the latest, oldest first
}

// New returns a Server. The caller must close locks, after Shutdown.
func New(locks *lock.Locker, o Options) (*Server, error) {
	o = o.withDefaults(locks)
	a, err := newAccess(o.Clients)
	if err != nil {
		return nil, err
	}
	switch {
	case o.MaxTTL < 0 || o.DefaultTTL < 0 || o.Linger < 0:
		return nil, fmt.Errorf("%w: a time limit is negative", lock.ErrInvalid)
	case o.DefaultTTL > o.MaxTTL:
		return nil, fmt.Errorf("%w: the default TTL of %v is longer than the longest TTL, %v", lock.ErrInvalid, o.DefaultTTL,
			o.MaxTTL)
	case o.MaxBody < 0 || min(o.MaxWaiters, o.MaxWaitersPerClient, o.MaxLeases, o.MaxLeasesPerClient, o.MaxWatchers,
		o.MaxWatchersPerClient) < 0:
		return nil, fmt.Errorf("%w: a limit is negative", lock.ErrInvalid)
	}
	s := &Server{
		locks: locks, options: o, access: a, origins: http.NewCrossOriginProtection(),
		started: time.Now(), opensAt: time.Now().Add(o.StartDelay), metrics: newMetrics(),
		stopping: make(chan struct{}), logging: make(chan struct{}, maxLogging),
		claims: make(map[claimID]*claim), resuming: make(map[claimID]chan struct{}),
		usage: make(map[string]*usage), waiters: make(map[string]int),
	}
	s.routes = s.allRoutes()
	return s, nil
}

// StartDelay returns how much longer the server grants nothing.
func (s *Server) StartDelay() time.Duration { return max(0, time.Until(s.opensAt)) }

// Shutdown answers every waiting request with 503 shutting_down and ends streams. It waits for attempts and releases in
// progress, or until ctx ends. Leases that clients have received are not released, because their holders still rely on
// them. Call Shutdown before http.Server.Shutdown, which waits for the requests themselves.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.stopping)
		for _, c := range s.claims {
			c.stopAttemptLocked()
			s.background.Go(func() { s.abandon(c) })
		}
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.background.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
