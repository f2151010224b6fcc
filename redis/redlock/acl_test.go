package redlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/redis/internal/redistest"
)

// The rights in docs/redlock.md suffice for an ACL user, and each of them is needed.
func TestDocumentedRights(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/redlock.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("An ACL user needs `([^`]+)`").FindSubmatch(doc)
	if m == nil {
		t.Fatal("docs/redlock.md names no rights")
	}
	rights := strings.Fields(string(m[1]))
	f := startFleet(t, 3)
	f.bootstrap()
	doAll := func(name string, rights []string) (err error) {
		url := f.url()
		for _, n := range f.nodes {
			redistest.User(t, redistest.Raw(t, n.Addr), name, rights)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*soon)
		defer cancel()
		b, _, err := driver.Open(ctx, strings.Replace(url, "//", "//"+name+":secret@", 1))
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		l, err := b.Acquire(ctx, req(name, time.Minute))
		if err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		next := startAcquire(ctx, b, waiting(name, time.Minute))
		batch := b.(backend.BatchRenewer).RenewBatch(ctx, []backend.Renewal{{Lease: l, TTL: time.Minute}})
		_, inspected := b.Inspect(ctx, name)
		if err := errors.Join(l.Renew(ctx, time.Minute), errors.Join(batch...), inspected, l.Release(ctx)); err != nil {
			return err
		}
		o := <-next
		if o.Err != nil {
			return fmt.Errorf("wait: %w", o.Err)
		}
		return o.Lease.Release(ctx)
	}
	if err := doAll("all", rights); err != nil {
		t.Fatal(err)
	}
	for i, r := range rights {
		err := doAll(fmt.Sprint("less", i), slices.Delete(slices.Clone(rights), i, i+1))
		if err == nil {
			t.Errorf("%s is not needed", r)
		}
		t.Logf("without %s: %v", r, err)
	}
}
