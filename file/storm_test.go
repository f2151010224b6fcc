//go:build linux

package file_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/file"
	"github.com/anylock/lock/internal/storetest"
)

// Processes acquire, renew and release two keys in a loop, shared and exclusive, and are killed and stopped at random
// moments. Two leases of a key overlap only if both are shared. Tokens increase with time, no record is damaged, and at
// the end every key becomes free.
func TestStorm(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "kills and stops processes for four seconds")
	const duration = 4 * time.Second
	dir := t.TempDir()
	logs := t.TempDir()
	number := 0
	launch := func() *child {
		number++
		return start(t, dir, "storm", fmt.Sprintf("%s=%s/%d", logVariable, logs, number))
	}
	children := make([]*child, 6)
	for i := range children {
		children[i] = launch()
	}
	kills, stops := 0, 0
	for end := time.Now().Add(duration); time.Now().Before(end); {
		time.Sleep(rand.N(20 * time.Millisecond)) // sleeps: the pace of the storm
		i := rand.N(len(children))
		switch rand.N(3) {
		case 0:
			children[i].freeze()
			time.Sleep(rand.N(2 * file.BreakAfter)) // sleeps: how long a process is stopped
			children[i].thaw()
			stops++
		default:
			children[i].kill()
			children[i] = launch()
			kills++
		}
	}
	for _, c := range children {
		c.in.Close()
		for line := range c.out {
			t.Errorf("a child says: %s", line)
		}
	}
	b := open(t, dir)
	for _, key := range stormKeys {
		watch := startWatch(t)
		mustWait(t, b, key, time.Minute)
		if took, most := watch.took(), stormTTL+b.Guarantees().MaxLate; took > most {
			t.Errorf("%s was free %v after the storm, want %v at most", key, took, most)
		}
	}
	grants := checkLogs(t, logs)
	t.Logf("%d kills, %d stops, %d grants", kills, stops, grants)
	if grants < 100 {
		t.Errorf("only %d grants", grants)
	}
}

const (
	logVariable = "ANYLOCK_TEST_LOG"
	stormTTL    = 100 * time.Millisecond
)

var stormKeys = []string{"a", "B"}

func storm(b *file.Backend) {
	log, err := os.OpenFile(os.Getenv(logVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, key := range stormKeys {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := stormOnce(ctx, b, key, log); err != nil && ctx.Err() == nil {
					fmt.Println("error", err)
				}
			}
		})
	}
	os.Stdin.Read(make([]byte, 1)) // returns at the end of the input
	cancel()
	wg.Wait()
}

func stormOnce(ctx context.Context, b *file.Backend, key string, log *os.File) error {
	wctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	r := request(key, stormTTL, true)
	r.Shared = rand.N(3) > 0
	l, err := b.Acquire(wctx, r)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrLost) {
		return nil
	}
	if err != nil {
		return err
	}
	note := func(what string) {
		now := file.Monotonic()
		deadline := now + int64(time.Until(l.Deadline()))
		fmt.Fprintf(log, "%s %s %d %d %d %t\n", what, key, l.Token(), now, deadline, r.Shared)
	}
	note("G")
	time.Sleep(rand.N(2 * time.Millisecond)) // sleeps: the work under the lock
	if rand.N(2) == 0 {
		if err := l.Renew(ctx, stormTTL); err == nil {
			note("N")
		} else if !errors.Is(err, backend.ErrLost) && ctx.Err() == nil {
			return err
		}
	}
	note("R")
	if err := l.Release(ctx); err != nil && !errors.Is(err, backend.ErrLost) {
		return err
	}
	return nil
}

// A held is the period of a lease, as far as its holder could log it.
type held struct {
	token        uint64
	start, until int64 // start is not before the grant
	shared       bool
}

func checkLogs(t *testing.T, dir string) (grants int) {
	t.Helper()
	leases := make(map[string]map[uint64]*held)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if strings.Count(lines.Text(), " ") == 5 {
				grants += enter(t, leases, lines.Text())
			}
		}
		f.Close()
	}
	beside := make(map[bool]int) // counts readers by whether another reader held the key at their grant
	for key, byToken := range leases {
		var all []*held
		for _, h := range byToken {
			all = append(all, h)
		}
		sort.Slice(all, func(i, j int) bool { return all[i].token < all[j].token })
		var exclusive, shared int64 // when the earlier leases of each mode end
		for _, h := range all {
			before := exclusive
			if !h.shared {
				before = max(before, shared)
			}
			switch {
			case h.start < before:
				t.Errorf("key %s: token %d (shared %v) begins %v before the lease of a lower token ends",
					key, h.token, h.shared, time.Duration(before-h.start))
			case h.shared:
				beside[h.start < shared]++
				shared = max(shared, h.until)
			default:
				exclusive = h.until
			}
		}
	}
	if t.Logf("%d readers entered beside another one, %d alone", beside[true], beside[false]); beside[true] == 0 {
		t.Error("no reader entered beside another one")
	}
	return grants
}

func enter(t *testing.T, leases map[string]map[uint64]*held, line string) (grants int) {
	t.Helper()
	var (
		what, key     string
		token         uint64
		now, deadline int64
		shared        bool
	)
	if _, err := fmt.Sscan(line, &what, &key, &token, &now, &deadline, &shared); err != nil {
		return 0 // cut short by a kill
	}
	if leases[key] == nil {
		leases[key] = make(map[uint64]*held)
	}
	h := leases[key][token]
	switch what {
	case "G":
		if h != nil {
			t.Errorf("key %s: token %d was granted twice", key, token)
			return 0
		}
		leases[key][token] = &held{token, now, deadline, shared}
		return 1
	case "N":
		h.until = max(h.until, deadline)
	case "R":
		h.until = min(max(h.until, deadline), now)
	}
	return 0
}
