package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/redistest"
)

// documentedRights returns the rights that an ACL user needs, according to the package comment.
func documentedRights(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "// # Access control\n")
	section, _, _ = strings.Cut(section, "// # ")
	var rights []string
	for line := range strings.Lines(section) {
		if list, ok := strings.CutPrefix(line, "//\t"); ok {
			rights = append(rights, strings.Fields(list)...)
		}
	}
	if len(rights) < len(scriptCommands) {
		t.Fatalf("the package comment gives the rights %q", rights)
	}
	return rights
}

// doAll opens the store at url, and runs the operations that the documented rights must permit. It returns the first
// error.
func doAll(t *testing.T, url, key string) (err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*soon)
	defer cancel()
	b, err := openURL(ctx, url)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if loss := b.Guarantees().EarlyLoss; strings.Contains(loss, "not permitted") {
		return errors.New("open: " + loss)
	}
	first, err := b.Acquire(ctx, req(key, time.Minute))
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	_, held := b.Acquire(ctx, req(key, time.Minute))
	if !errors.Is(held, backend.ErrHeld) {
		return fmt.Errorf("acquire of a held key: %w", held)
	}
	if err := first.Renew(ctx, 2*time.Minute); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	other, err := b.Acquire(ctx, req(key+" too", time.Minute))
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	batch := b.RenewBatch(ctx, []backend.Renewal{{Lease: first, TTL: 3 * time.Minute}, {Lease: other, TTL: time.Minute}})
	if err := errors.Join(batch...); err != nil {
		return fmt.Errorf("renew a batch: %w", err)
	}
	next := startAcquire(ctx, b, waiting(key, time.Minute))
	for {
		h, err := b.Inspect(ctx, key)
		if err != nil {
			return fmt.Errorf("inspect: %w", err)
		}
		if h.Waiters == 1 && b.inbox.ready() {
			break
		}
		select {
		case o := <-next:
			return fmt.Errorf("wait: %w", o.Err)
		case <-time.After(time.Millisecond):
		}
	}
	begun := time.Now()
	if err := first.Release(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	o := <-next
	if o.Err != nil {
		return fmt.Errorf("hand-off: %w", o.Err)
	}
	// Without a notification, a waiter rechecks no sooner than 90 % of maxRecheck after it has queued, which was just now.
	if took := o.At.Sub(begun); took > maxRecheck/2 {
		return fmt.Errorf("hand-off took %v", took)
	}
	return errors.Join(o.Lease.Release(ctx), other.Release(ctx), shareAll(ctx, b, key))
}

// shareAll runs the operations of shared leases. It returns the first error.
func shareAll(ctx context.Context, b *Backend, key string) error {
	r := shared(req(key, time.Minute))
	first, err := b.Acquire(ctx, r)
	if err != nil {
		return fmt.Errorf("share: %w", err)
	}
	second, err := b.Acquire(ctx, shared(req(key, time.Minute)))
	if err != nil {
		return fmt.Errorf("share: %w", err)
	}
	if err := first.Renew(ctx, 2*time.Minute); err != nil {
		return fmt.Errorf("renew a shared lease: %w", err)
	}
	writer := startAcquire(ctx, b, waiting(key, time.Minute))
	for h := (backend.Holder{}); h.Waiters == 0; {
		if h, err = b.Inspect(ctx, key); err != nil {
			return fmt.Errorf("inspect shared leases: %w", err)
		}
	}
	reader := startAcquire(ctx, b, shared(waiting(key, time.Minute)))
	if err := b.Break(ctx, key, r.Owner); err != nil {
		return fmt.Errorf("break a shared lease: %w", err)
	}
	if err := second.Release(ctx); err != nil {
		return fmt.Errorf("release a shared lease: %w", err)
	}
	for _, done := range []<-chan outcome{writer, reader} {
		o := <-done
		if o.Err != nil {
			return fmt.Errorf("hand-off to and from a writer: %w", o.Err)
		}
		if err := o.Lease.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// suffice fails the test unless doAll succeeds. It tries three times, because a hand-off has a time limit.
func suffice(t *testing.T, url, key string) {
	t.Helper()
	tried := 0
	storetest.ThreeTries(t, func() error {
		tried++
		return doAll(t, url, fmt.Sprint(key, tried))
	})
}

// The documented rights suffice, and each of them is needed. A database other than 0 also needs +select.
func TestDocumentedRights(t *testing.T) {
	t.Parallel()
	c := redistest.Raw(t, servers.Redis(t).Addr)
	rights := documentedRights(t)
	suffice(t, redistest.User(t, c, "all", rights), "all")
	for i, r := range rights {
		url := redistest.User(t, c, fmt.Sprint("less", i), slices.Delete(slices.Clone(rights), i, i+1))
		err := doAll(t, url, fmt.Sprint("less", i))
		if err == nil {
			t.Errorf("%s is not needed", r)
		}
		t.Logf("without %s: %v", r, err)
	}
	if err := doAll(t, redistest.User(t, c, "all", rights)+"/1", "all"); err == nil {
		t.Error("another database without +select")
	}
	suffice(t, redistest.User(t, c, "select", append(rights, "+select"))+"/1", "all")
}

// In a Cluster, a user also needs +cluster|slots.
func TestDocumentedRightsCluster(t *testing.T) {
	t.Parallel()
	nodes := cluster(t)
	rights := append(documentedRights(t), "+cluster|slots")
	for _, n := range nodes {
		redistest.User(t, redistest.Raw(t, n.Addr), "all", rights)
		redistest.User(t, redistest.Raw(t, n.Addr), "less", rights[:len(rights)-1])
	}
	suffice(t, "redis+cluster://all:secret@"+nodes[0].Addr, "all")
	if err := doAll(t, "redis+cluster://less:secret@"+nodes[0].Addr, "all"); err == nil {
		t.Error("+cluster|slots is not needed")
	}
}

func TestConformanceDocumentedRights(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "the suite once more")
	s := servers.Redis(t)
	url := redistest.User(t, redistest.Raw(t, s.Addr), "app", append(documentedRights(t), "+scan")) // for List
	conformance.RunCore(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open:  func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, url) },
			Evict: func(ctx context.Context, key string) error { return evict(ctx, s.Addr, key) },
		}
	}, "inspect")
}

// List also needs +scan.
func TestDocumentedRightsOfList(t *testing.T) {
	t.Parallel()
	c := redistest.Raw(t, servers.Redis(t).Addr)
	rights := documentedRights(t)
	for i, want := range []bool{false, true} {
		if want {
			rights = append(rights, "+scan")
		}
		b, err := openURL(t.Context(), redistest.User(t, c, fmt.Sprint("list", i), rights))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.List(t.Context(), ""); (err == nil) != want {
			t.Errorf("%v: %v", rights, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// MinReplicas needs +wait. Without it, opening fails, and an Acquire fails and leaves no key behind.
func TestDocumentedRightsOfReplicas(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	c := redistest.Raw(t, s.Addr)
	for name, want := range map[string]error{"less": backend.ErrUnsupported, "more": nil} {
		rights := documentedRights(t)
		if want == nil {
			rights = append(rights, "+wait")
		}
		b, err := openURL(t.Context(), redistest.User(t, c, name, rights)+"?lock_min_replicas=1")
		if !errors.Is(err, want) {
			t.Errorf("%s: open: %v, want %v", name, err, want)
		}
		if err == nil {
			_ = b.Close()
		}
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "less", Password: "secret"})
	defer client.Close()
	b, err := onClient(client, &Options{MinReplicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Acquire(t.Context(), req("k", time.Hour)); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("acquire: %v, want ErrUnavailable", err)
	}
	until(t, soon, "the key is free again", func() bool {
		h, err := b.Inspect(t.Context(), "k")
		return err == nil && !h.Held()
	})
}

// The user that docs/stores/redis.md creates can run every operation, but cannot write other keys.
func TestPermissionsOfThePage(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	c := redistest.Raw(t, s.Addr)
	for _, line := range storetest.Permissions(t, "redis") {
		var args []any
		for _, word := range strings.Fields(line) {
			args = append(args, word)
		}
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	storetest.UseAll(t, storetest.Opened[*Backend](t, "redis://anylock:PASSWORD@"+s.Addr), "k")
	user := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "anylock", Password: "PASSWORD"})
	defer user.Close()
	if err := user.Set(t.Context(), "other", "", 0).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("another key: %v", err)
	}
}
