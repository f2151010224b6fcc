//go:build probe && linux

package probe_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/anylock/lock"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/pair"
)

const (
	processes = 8
	probeTTL  = time.Second // a store may round it up
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs every outage, and this test causes many
	if os.Getenv(workerURL) != "" {
		work()
		return
	}
	os.Exit(m.Run())
}

// Eight processes, each with four readers and a writer, share two keys. Now and then, each process is killed, stopped,
// cut off from the store or disconnected. ANYLOCK_PROBE_DURATION sets the duration. ANYLOCK_PROBE_DIR names a folder in
// which the journals are kept. The program checkjournal, which contains no code of the library, checks that no writer
// held a key beside anybody else. At the end, both keys become free.
func TestProbe(t *testing.T) {
	for _, name := range []string{"file", "redis", "etcd", "zookeeper", "postgres", "pair"} {
		t.Run(name, func(t *testing.T) { run(t, name, nil) })
	}
}

// checkjournal detects writers that request shared leases.
func TestProbeFindsSharedWriters(t *testing.T) {
	out, err := probe(t, "file", 3*time.Second, []string{workerSin + "=shared writers"})
	if err == nil || !strings.Contains(out, "before the end of another") {
		t.Errorf("checkjournal: %v\n%s", err, out)
	}
}

func run(t *testing.T, store string, env []string) {
	duration := 20 * time.Second
	if text := os.Getenv("ANYLOCK_PROBE_DURATION"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	out, err := probe(t, store, duration, env)
	if err != nil {
		t.Errorf("checkjournal: %v", err)
	}
	t.Logf("%v\n%s", duration, out)
}

// probe runs the processes on a store, and returns the output of checkjournal for their journal.
func probe(t *testing.T, store string, duration time.Duration, env []string) (string, error) {
	raw, list := start(t, store)
	locks, err := lock.Open(t.Context(), raw, lock.WithTTL(probeTTL))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	g := locks.Guarantees()
	p := &pack{t: t, ttl: g.Round(probeTTL), env: env, journal: filepath.Join(folder(t), store+".journal")}
	_ = os.Remove(p.journal) // of an earlier run
	var group sync.WaitGroup
	until := time.Now().Add(duration)
	for range processes {
		s := &subject{pack: p, url: raw}
		s.cutOff(list)
		s.start()
		group.Go(func() { s.trouble(until) })
	}
	pulse := startPulse()
	group.Wait()
	checkFree(t, locks, p.ttl+g.MaxLate+2*time.Minute)
	p.stop()
	t.Logf("a goroutine that sleeps for 20 ms at a time was late by %v in all", pulse())

	args := []string{"-least", "20", p.journal}
	if strings.Contains(g.EarlyLoss, "connection") {
		args = append([]string{"-early-loss"}, args...)
	}
	program := filepath.Join(t.TempDir(), "checkjournal")
	if out, err := exec.Command("go", "build", "-o", program, "./checkjournal").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	return strings.Join(args, " ") + "\n" + string(out), err
}

// startPulse measures how late a goroutine wakes up, which shows how busy the machine is.
func startPulse() (stop func() (late time.Duration)) {
	done := make(chan struct{})
	result := make(chan time.Duration)
	go func() {
		const beat = 20 * time.Millisecond
		var late time.Duration
		for {
			begun := time.Now()
			select {
			case <-done:
				result <- late
				return
			case <-time.After(beat):
				late += time.Since(begun) - beat
			}
		}
	}()
	return func() time.Duration {
		close(done)
		return <-result
	}
}

// start starts the servers of a store, and returns the store's URL with them.
func start(t *testing.T, store string) (raw string, list []*servers.Server) {
	switch store {
	case "postgres": // each lease has a connection
		s := servers.Postgres(t, "max_connections=500")
		return s.PostgresURL(), []*servers.Server{s}
	case "pair":
		first, list := start(t, "redis")
		second, more := start(t, "postgres")
		return pair.URL(first, second, 0), append(list, more...)
	}
	return servers.Store(t, store)
}

// folder returns the folder for journals.
func folder(t *testing.T) string {
	if dir := os.Getenv("ANYLOCK_PROBE_DIR"); dir != "" {
		return dir
	}
	return t.TempDir()
}

// checkFree fails the test if a key does not become free in time, while the processes still work.
func checkFree(t *testing.T, locks *lock.Locker, patience time.Duration) {
	t.Helper()
	for _, key := range keys {
		for _, opts := range [][]lock.AcquireOption{nil, {lock.Shared()}} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			l, err := locks.Acquire(ctx, key, opts...)
			for errors.Is(err, lock.ErrUnavailable) && ctx.Err() == nil { // a machine so busy that the server is late
				l, err = locks.Acquire(ctx, key, opts...)
			}
			if err != nil {
				t.Errorf("key %s within %v after the last fault: %v", key, patience, err)
				continue
			}
			_ = l.Release(ctx) // it may have been lost on a busy machine
		}
	}
}

// cutOff puts a separate link between the process and the store's servers.
func (s *subject) cutOff(list []*servers.Server) {
	if len(list) == 0 {
		return
	}
	var addrs []string
	for _, server := range list {
		addrs = append(addrs, server.Addr)
	}
	l, err := link.New(addrs...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(l.Close)
	s.link = l
	for i, addr := range l.Addrs() {
		s.url = strings.Replace(s.url, addrs[i], addr, 1)
		s.url = strings.Replace(s.url, url.QueryEscape(addrs[i]), url.QueryEscape(addr), 1)
	}
}

// between returns a random duration from least to most.
func between(least, most time.Duration) time.Duration { return least + rand.N(most-least+1) }
