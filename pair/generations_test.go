package pair_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/process"
	_ "github.com/anylock/lock/etcd"
	_ "github.com/anylock/lock/file"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/pair"
)

// A rolled is a store that processes are switched from or to.
type rolled struct {
	url          string
	freeze, thaw func() // stop and continue the server; nil if there is none
}

func rolledServer(s *servers.Server, url string) rolled { return rolled{url, s.Freeze, s.Thaw} }

// Processes are switched one by one from a store to the pair, from the pair to the next store, and back again.
// Meanwhile processes are killed, and each store stops answering for a while. At most one process holds the key at a
// time, and tokens rise.
func TestGenerations(t *testing.T) {
	storetest.Long(t, "processes that are switched from store to store and back")
	redis := func(t *testing.T) rolled {
		s := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
		return rolledServer(s, "redis://"+s.Addr)
	}
	postgres := func(t *testing.T) rolled {
		s := servers.Postgres(t, "max_connections=200")
		return rolledServer(s, s.PostgresURL())
	}
	etcd := func(t *testing.T) rolled {
		s := servers.Etcd(t)
		return rolledServer(s, "etcd://"+s.Addr)
	}
	file := func(t *testing.T) rolled { return rolled{url: "file://" + t.TempDir()} }
	for name, stores := range map[string][2]func(*testing.T) rolled{
		"RedisToEtcd": {redis, etcd}, "PostgresToRedis": {postgres, redis}, "FileToPostgres": {file, postgres},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := stores[0](t), stores[1](t)
			r := &roll{t: t}
			t.Cleanup(r.stop)
			there := r.plan(from, to, 0)
			r.start(generation{from.url, 0})
			r.roll(there)
			back := r.plan(to, from, there.base)
			r.roll(back)
			r.stop()
			r.check()
		})
	}
}

// A generation is the URL that a process is started with, and the base that package lock would add to its numbers.
type generation struct {
	url  string
	base uint64
}

// A plan describes a switch from a store through the pair to the next store.
type plan struct {
	from, to   rolled
	both       string
	cut        uint64
	base, had  uint64 // token bases of the next store and of this one
	pass, late func() // draw numbers until the cut; fail if it has passed early
}

// plan chooses a cut that the numbers do not reach before all processes use the pair.
func (r *roll) plan(from, to rolled, had uint64) plan {
	r.t.Helper()
	p := plan{from: from, to: to, had: had}
	var clients []backend.Backend // two that alternate: numbers of one session may differ by less
	for range 2 {
		b, err := openURL(r.t.Context(), from.url)
		if err != nil {
			r.t.Fatal(err)
		}
		clients = append(clients, b)
	}
	number := func() (n uint64) { // repeated if the store does not answer in time
		storetest.Until(r.t, time.Minute, "a number", func() bool {
			clients[0], clients[1] = clients[1], clients[0]
			l, err := clients[0].Acquire(r.t.Context(), storetest.Try("probe", 10*time.Second))
			if err != nil {
				return false
			}
			n = l.Token()
			return l.Release(r.t.Context()) == nil
		})
		return n
	}
	first, at := number(), time.Now()
	const probes = 20
	for range probes {
		number()
	}
	step := (number() - first) / probes
	ahead := 3000 * step // grants, if the numbers are a counter
	if passed := time.Since(at); number()-first > uint64(passed.Microseconds())*9/10 {
		ahead = 25_000_000 // if the numbers are a clock in microseconds
	}
	p.cut = number() + ahead + had
	p.base = p.cut
	p.both = pair.URL(based(from.url, had), based(to.url, p.base), p.cut)
	p.pass = func() {
		defer clients[0].Close()
		defer clients[1].Close()
		for number()+had < p.cut { //nolint:revive // numbers pass
		}
		r.pause(pair.SwitchDelay)
	}
	p.late = func() {
		if now := number() + had; now >= p.cut {
			r.t.Errorf("the cut %d is too early: %d before all processes use both stores", p.cut, now)
		}
	}
	return p
}

func based(url string, base uint64) string {
	if base == 0 {
		return url
	}
	return url + separator(url) + "lock_token_base=" + strconv.FormatUint(base, 10)
}

// A roll is a set of processes that are switched one after the other, and the history of their leases.
type roll struct {
	t       *testing.T
	workers []*worker

	mu      sync.Mutex
	history []porcupine.Operation
	grants  []granted
	refused int
}

// A granted is a lease that was held from since, when its process had reported the grant, to until, or longer.
type granted struct {
	since, until time.Time
	token        uint64
	by           generation
}

// A worker is a goroutine that runs one process at a time. Closing stop ends the worker.
type worker struct {
	stop chan struct{}
	done sync.WaitGroup
}

const processes = 4

func (r *roll) start(g generation) {
	for range processes {
		r.workers = append(r.workers, r.work(g))
	}
	r.pause(500 * time.Millisecond)
}

func (r *roll) pause(d time.Duration) { time.Sleep(d) } // sleeps: how long processes contend

func (r *roll) roll(p plan) {
	r.replace(generation{p.both, 0})
	p.late()
	if p.from.freeze != nil {
		p.from.freeze()
		r.pause(2 * time.Second)
		p.from.thaw()
	}
	r.pause(500 * time.Millisecond)
	p.pass()
	if p.to.freeze != nil {
		p.to.freeze()
		r.pause(2 * time.Second)
		p.to.thaw()
	}
	r.replace(generation{p.to.url, p.base})
}

// replace switches one worker after the other to g.
func (r *roll) replace(g generation) {
	for i, w := range r.workers {
		close(w.stop)
		w.done.Wait()
		r.workers[i] = r.work(g)
		r.pause(300 * time.Millisecond)
	}
}

func (r *roll) stop() {
	for _, w := range r.workers {
		close(w.stop)
		w.done.Wait()
	}
	r.workers = nil
}

// work starts a worker. Its processes contend for the key, one after the other. Each is killed at its end, often while
// it holds the key or waits.
func (r *roll) work(g generation) *worker {
	w := &worker{stop: make(chan struct{})}
	begin := process.Self(g.url)
	w.done.Go(func() {
		failing := time.Now()
		for again := true; again; {
			p, err := begin(context.Background(), 0)
			if err != nil && time.Since(failing) < patience { // a store may be frozen
				continue
			}
			if err != nil {
				r.t.Errorf("starting a process: %v", err)
				return
			}
			again = r.contend(p, g, w.stop, 5+rand.IntN(40))
			failing = time.Now()
		}
	})
	return w
}

// patience is longer than any wait for the key, even if stores are frozen, holders are killed, and the machine's disk
// is busy.
const patience = time.Minute

// look describes the key's holder.
func look(url string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b, err := openURL(ctx, url)
	if err != nil {
		return err.Error()
	}
	defer b.Close()
	h, err := b.Inspect(ctx, "key")
	return fmt.Sprintf("%+v, %v", h, err)
}

// contend acquires and releases the key that many times, then kills the process. It returns false if the worker must
// end.
func (r *roll) contend(p conformance.Process, g generation, stop <-chan struct{}, times int) bool {
	const ttl = time.Second
	for i := range times {
		q := backend.Request{Key: "key", Owner: backend.NewOwner(), TTL: ttl, Wait: rand.IntN(3) > 0}
		asked := time.Now()
		answered, err := p.Acquire(q)
		if err != nil {
			r.t.Errorf("acquire: %v", err)
			break
		}
		var got conformance.ProcessGrant
		select {
		case got = <-answered:
		case <-stop: // the process may hold a lease that it has not reported
			p.Kill()
			return false
		case <-time.After(patience):
			r.t.Errorf("no answer within %v of %s: %s", patience, g.url, look(g.url))
			p.Kill()
			return false
		}
		if got.Err != nil {
			r.mu.Lock()
			r.refused++
			r.mu.Unlock()
			time.Sleep(rand.N(20 * time.Millisecond)) // sleeps: a pause between attempts
			continue
		}
		deadline := got.Looked.Add(got.Left)
		// The report of the grant may be late.
		h := granted{since: earlierOf(time.Now(), deadline), token: got.Token + g.base, by: g}
		time.Sleep(rand.N(10 * time.Millisecond)) // sleeps: the work under the lock
		h.until = earlierOf(time.Now(), deadline)
		ended := time.Time{} // when the lease had certainly ended
		last := i == times-1
		if last {
			p.Kill()
		} else if err := p.Release(context.Background(), q.Owner); err == nil {
			ended = time.Now()
		} else if errors.Is(err, backend.ErrLost) && time.Now().Before(deadline) {
			h.until = h.since // the lease was lost earlier, at an unknown time
			ended = time.Now()
		}
		r.note(asked, h, ended)
	}
	select {
	case <-stop:
		p.Kill()
		return false
	default:
		p.Kill()
		return true
	}
}

func earlierOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// An event is a step of the model: a grant with its token or, if token is 0, the end of the lease with the token ends.
type event struct{ token, ends uint64 }

func (r *roll) note(asked time.Time, h granted, ended time.Time) {
	end := int64(math.MaxInt64)
	if !ended.IsZero() {
		end = ended.UnixNano()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants = append(r.grants, h)
	r.history = append(r.history,
		porcupine.Operation{Input: event{token: h.token}, Call: asked.UnixNano(), Return: h.since.UnixNano()},
		porcupine.Operation{Input: event{ends: h.token}, Call: h.until.UnixNano(), Return: end})
}

// model is a lock with at most one holder at a time, and with rising tokens.
var model = porcupine.Model{
	Init: func() any { return [2]uint64{} }, // the holder's token or 0, and the last token
	Step: func(state, input, _ any) (bool, any) {
		s, e := state.([2]uint64), input.(event)
		switch {
		case e.token != 0:
			return s[0] == 0 && e.token > s[1], [2]uint64{e.token, e.token}
		default:
			return s[0] == e.ends, [2]uint64{0, s[1]}
		}
	},
}

func (r *roll) check() {
	t := r.t
	t.Helper()
	slices.SortFunc(r.grants, func(a, b granted) int { return a.since.Compare(b.since) })
	byToken := slices.Clone(r.grants)
	slices.SortStableFunc(byToken, func(a, b granted) int { return cmp.Compare(a.token, b.token) })
	overlaps, falls := 0, 0
	for i := 1; i < len(r.grants); i++ {
		if r.grants[i].since.Before(r.grants[i-1].until) {
			overlaps++
		}
		if byToken[i].until.Before(byToken[i-1].since) || byToken[i].token == byToken[i-1].token {
			falls++
			t.Logf("token %d (%s) was held from %v, %v before %d (%s)", byToken[i].token, byToken[i].by.url, byToken[i].since,
				byToken[i-1].since.Sub(byToken[i].until), byToken[i-1].token, byToken[i-1].by.url)
		}
	}
	t.Logf("%d grants, %d refusals and errors, %d overlaps, %d tokens that fell", len(r.grants), r.refused, overlaps,
		falls)
	if overlaps > 0 || falls > 0 || len(r.grants) < 100 {
		t.Error("want at least 100 grants, no overlaps, and rising tokens")
	}
	if got := porcupine.CheckOperationsTimeout(model, r.history, time.Minute); got != porcupine.Ok {
		t.Errorf("porcupine: %v", got)
	}
}

// separator returns the character in front of a further parameter of url.
func separator(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}
