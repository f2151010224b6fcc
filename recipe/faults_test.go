//go:build linux

package recipe_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/recipe"
)

// Processes lead, acquire permits and sets of keys, read and write. One process is killed again and again, one is
// stopped for longer than its TTL, and one is cut off from the store for as long. At most one process leads, no more
// permits are held than exist, no key of a set has two holders, and a writer works alone.
func TestFaults(t *testing.T) {
	for _, name := range servers.SharedStores {
		t.Run(name, func(t *testing.T) {
			if name != "redis" {
				storetest.Long(t, "processes on every store")
			}
			t.Parallel()
			faults(t, name)
		})
	}
}

func faults(t *testing.T, store string) {
	url, list := servers.Store(t, store)
	locks, err := lock.Open(t.Context(), url, lock.WithTTL(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	var (
		g       = locks.Guarantees()
		ttl     = g.Round(time.Second)
		beyond  = ttl + ttl/2
		patient = ttl + g.MaxLate + 20*time.Second
		h       = &history{ttl: ttl}
		cutOff  *link.Link
	)
	linked := url
	if list != nil {
		var addrs []string
		for _, s := range list {
			addrs = append(addrs, s.Addr)
		}
		if cutOff, err = link.New(addrs...); err != nil {
			t.Fatal(err)
		}
		defer cutOff.Close()
		for i, addr := range cutOff.Addrs() {
			linked = strings.Replace(linked, addrs[i], addr, 1)
		}
	}
	steady, stopped, cut := h.start(t, "steady", url), h.start(t, "stopped", url), h.start(t, "cut", linked)
	killed := h.start(t, "killed", url)

	h.await(t, patient, steady, stopped, cut, killed)
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		stopped.awaitHold(t, patient)
		stopped.signal(t, syscall.SIGSTOP)
		cut.awaitHold(t, patient)
		if cutOff != nil {
			cutOff.Drop(conformance.ToStore)
			cutOff.Drop(conformance.FromStore)
		}
		for end := time.Now().Add(beyond); time.Now().Before(end); {
			killed.kill()
			killed = h.start(t, "killed", url)
			killed.awaitHold(t, patient)
		}
		if cutOff != nil {
			cutOff.Heal()
		}
		stopped.signal(t, syscall.SIGCONT)
		h.await(t, patient, steady, stopped, cut, killed)
	}
	for _, p := range []*proc{steady, stopped, cut, killed} {
		p.stop(t, patient)
	}
	h.check(t)

	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	all, err := recipe.AcquireAll(ctx, locks, append([]string{"boss"}, setKeys...))
	if err != nil {
		t.Fatalf("keys are left behind: %v", err)
	}
	release(t, all)
	last, err := readersWriters(t, locks, permits).Acquire(ctx)
	if err != nil {
		t.Fatalf("permits of readers are left behind: %v", err)
	}
	release(t, last)
	mail := semaphore(t, locks, permits)
	for range permits {
		lease, err := mail.Acquire(ctx)
		if err != nil {
			t.Fatalf("permits are left behind: %v", err)
		}
		defer release(t, lease)
	}
}

// A span is the time for which a process has held a key.
type span struct {
	kind, key   string
	token       uint64
	since, till time.Duration
	by          string // process
	how         string // the hold ended; empty if the process was killed
}

// A history records what several processes have held.
type history struct {
	ttl time.Duration

	mu    sync.Mutex
	spans []*span
	bad   []string
}

// A proc is a process that runs all recipes.
type proc struct {
	h     *history
	name  string
	cmd   *exec.Cmd
	in    io.Closer
	ended chan struct{}

	// guarded by h.mu
	open  map[string][]*span // by the ID of the hold; its spans end together
	holds map[string]int     // holds that have ended, by kind
}

func (h *history) start(t *testing.T, name, url string) *proc {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^$")
	cmd.Env = append(os.Environ(), childURL+"="+url, childTTL+"="+h.ttl.String())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &proc{h: h, name: name, cmd: cmd, in: in, ended: make(chan struct{}), open: make(map[string][]*span),
		holds: make(map[string]int)}
	t.Cleanup(p.kill)
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.take(p, lines.Text())
		}
		_ = cmd.Wait()
	}()
	return p
}

// take records one line of a process. If the process is killed, its last holds count until the last time that it has
// reported.
func (h *history) take(p *proc, line string) {
	f := strings.Fields(line)
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			h.bad = append(h.bad, line)
		}
		return n
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case len(f) == 6 && f[0] == "+":
		at := time.Duration(number(5))
		s := &span{kind: f[2], key: f[3], token: number(4), since: at, till: at, by: p.name}
		p.open[f[1]] = append(p.open[f[1]], s)
		h.spans = append(h.spans, s)
	case len(f) == 3 && f[0] == "=", len(f) == 4 && f[0] == "-":
		for _, s := range p.open[f[1]] {
			s.till = max(s.till, time.Duration(number(2)))
		}
		if f[0] == "-" {
			p.holds[p.open[f[1]][0].kind]++
			for _, s := range p.open[f[1]] {
				s.how = f[3]
			}
			delete(p.open, f[1])
		}
	default:
		h.bad = append(h.bad, line)
	}
}

func (p *proc) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// kill kills the process, and returns when all of its output has been read.
func (p *proc) kill() {
	_ = p.cmd.Process.Kill() // fails if the process has ended
	<-p.ended
	_ = p.in.Close()
}

// stop ends the input of the process, and waits until the process ends.
func (p *proc) stop(t *testing.T, patience time.Duration) {
	t.Helper()
	_ = p.in.Close()
	select {
	case <-p.ended:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the %s process ended with %d", p.name, code)
		}
	case <-time.After(patience):
		t.Errorf("the %s process has not ended after %v", p.name, patience)
	}
}

// poll waits until f returns true. It calls f with h.mu locked.
func (h *history) poll(t *testing.T, patience time.Duration, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		done, bad := f(), h.bad
		h.mu.Unlock()
		switch {
		case done:
			return
		case len(bad) > 0:
			t.Fatalf("a process says %q", bad)
		case time.Now().After(end):
			t.Fatalf("after %v: %s", patience, what)
		}
	}
}

// awaitHold waits until the process holds something.
func (p *proc) awaitHold(t *testing.T, patience time.Duration) {
	t.Helper()
	p.h.poll(t, patience, "the "+p.name+" process holds nothing", func() bool { return len(p.open) > 0 })
}

// await waits until a hold of every kind has ended in every process, counted from the call.
func (h *history) await(t *testing.T, patience time.Duration, procs ...*proc) {
	t.Helper()
	var before []map[string]int
	h.mu.Lock()
	for _, p := range procs {
		before = append(before, maps.Clone(p.holds))
	}
	h.mu.Unlock()
	for i, p := range procs {
		for _, kind := range []string{"boss", "mail", "set", "read", "write"} {
			h.poll(t, patience, fmt.Sprintf("the %s process has got no %s", p.name, kind),
				func() bool { return p.holds[kind] > before[i][kind] })
		}
	}
}

func (h *history) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.bad) > 0 {
		t.Errorf("processes say %q", h.bad)
	}
	kinds, ended := make(map[string]int), make(map[string]int)
	byKey := make(map[string][]*span)
	var ends []moment
	var doc []*span
	for _, s := range h.spans {
		kinds[s.kind]++
		ended[cmp.Or(s.how, "killed")]++
		if s.kind == "read" || s.kind == "write" {
			doc = append(doc, s)
		} else {
			byKey[s.key] = append(byKey[s.key], s)
		}
		if s.kind == "mail" {
			ends = append(ends, moment{s.since, 1}, moment{s.till, -1})
		}
	}
	for key, spans := range byKey {
		slices.SortFunc(spans, func(a, b *span) int { return cmp.Compare(a.since, b.since) })
		for i := 1; i < len(spans); i++ {
			a, b := spans[i-1], spans[i]
			if b.since < a.till {
				t.Errorf("%s: granted to %+v, %v before the end of %+v", key, *b, a.till-b.since, *a)
			}
			if b.token <= a.token {
				t.Errorf("%s: token %d after %d", key, b.token, a.token)
			}
		}
	}
	if most := mostAtOnce(ends); most > permits {
		t.Errorf("%d hold a permit", most)
	}
	checkRW(t, doc)
	t.Logf("leases by recipe: %v; how they ended: %v", kinds, ended)
}

// checkRW fails the test if a writer overlaps anybody, if too many readers overlap, or if a token is not above the
// tokens of all earlier holders that it excludes.
func checkRW(t *testing.T, spans []*span) {
	t.Helper()
	slices.SortFunc(spans, func(a, b *span) int { return cmp.Compare(a.since, b.since) })
	newest := make(map[string]*span) // by kind, the span with the highest token
	last := make(map[string]*span)   // by kind, the span that ends last
	var ends []moment
	for _, s := range spans {
		for _, kind := range []string{"read", "write"} {
			if kind == "read" && s.kind == "read" || newest[kind] == nil {
				continue
			}
			if a := last[kind]; s.since < a.till {
				t.Errorf("granted to %+v, %v before the end of %+v", *s, a.till-s.since, *a)
			}
			if a := newest[kind]; s.token <= a.token {
				t.Errorf("token of %+v after %+v", *s, *a)
			}
		}
		if a := newest[s.kind]; a == nil || s.token > a.token {
			newest[s.kind] = s
		}
		if a := last[s.kind]; a == nil || s.till > a.till {
			last[s.kind] = s
		}
		if s.kind == "read" {
			ends = append(ends, moment{s.since, 1}, moment{s.till, -1})
		}
	}
	if most := mostAtOnce(ends); most > permits {
		t.Errorf("%d read at once", most)
	}
}

// mostAtOnce returns the highest number of holds that overlap.
func mostAtOnce(ends []moment) (most int) {
	slices.SortFunc(ends, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.at, b.at),
			cmp.Compare(a.change, b.change))
	})
	holders := 0
	for _, m := range ends {
		holders += m.change
		most = max(most, holders)
	}
	return most
}

// A moment is the time of a grant, with a change of 1, or of its end, with a change of -1.
type moment struct {
	at     time.Duration
	change int
}
