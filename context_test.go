package lock_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// The context of Acquire bounds only the wait. A helper may limit the wait with a context that it cancels on return:
// the lease still renews itself, and the contexts derived from it live.
func TestContextOfAcquireBoundsTheWaitOnly(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		helper := func(get func(context.Context, string, ...lock.AcquireOption) (*lock.Lease, error)) *lock.Lease {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			lease, err := get(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			return lease
		}
		whole := func(lease *lock.Lease) {
			t.Helper()
			ctx := lease.Context(t.Context())
			time.Sleep(time.Hour)
			if lease.Err() != nil || lost(lease) || ctx.Err() != nil || lease.Context(t.Context()).Err() != nil {
				t.Errorf("%v, %v: a dead half", lease.Err(), context.Cause(ctx))
			}
			busy(t, b, "k")
		}
		lease := helper(a.Acquire) // granted by the store
		whole(lease)
		handed := make(chan *lock.Lease)
		go func() { handed <- helper(a.Acquire) }() // handed on
		synctest.Wait()
		release(t, lease)
		lease = <-handed
		whole(lease)
		release(t, lease)
		lease = helper(a.TryAcquire)
		whole(lease)
		again, err := func() (*lock.Lease, error) { // by re-entry
			ctx, cancel := context.WithTimeout(lease.Context(t.Context()), time.Second)
			defer cancel()
			return a.Acquire(ctx, "k", lock.Reentrant())
		}()
		if err != nil {
			t.Fatal(err)
		}
		release(t, lease)
		whole(again)
		release(t, again)
		free(t, b, "k")
	})
}

// A lease cannot depend on the context of Acquire, because no type that it refers to in this package has a field for a
// context.
func TestLeaseKeepsNoContext(t *testing.T) {
	ctx := reflect.TypeFor[context.Context]()
	seen := map[reflect.Type]bool{}
	var look func(at string, of reflect.Type)
	look = func(at string, of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Chan:
			look(at, of.Elem())
			if of.Kind() == reflect.Map {
				look(at, of.Key())
			}
		case reflect.Struct:
			if seen[of] || of.PkgPath() != reflect.TypeFor[lock.Lease]().PkgPath() {
				return
			}
			seen[of] = true
			for i := range of.NumField() {
				look(at+"."+of.Field(i).Name, of.Field(i).Type)
			}
		case reflect.Interface:
			if of == ctx {
				t.Error(at, "keeps a context")
			}
		}
	}
	look("Lease", reflect.TypeFor[lock.Lease]())
	if len(seen) < 4 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// A derived context ends with its parent, the release or the loss, whichever is first.
func TestLeaseContext(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		type name struct{}
		lease := acquire(t, a, "k")
		parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), name{}, "value"))
		ctx, other := lease.Context(parent), lease.Context(context.Background())
		if ctx.Value(name{}) != "value" {
			t.Error("the parent's values are missing")
		}
		cancel(context.DeadlineExceeded)
		wantErr(t, ctx.Err(), context.Canceled)
		wantErr(t, context.Cause(ctx), context.DeadlineExceeded)
		wantErr(t, context.Cause(lease.Context(parent)), context.DeadlineExceeded)
		if lease.Err() != nil || other.Err() != nil || lost(lease) {
			t.Error("a cancelled parent ends more than its child")
		}
		if err := lease.Release(parent); err != nil {
			t.Error(err)
		}
		for _, ctx := range []context.Context{other, lease.Context(t.Context())} {
			wantErr(t, context.Cause(ctx), context.Canceled)
			wantErr(t, context.Cause(ctx), lock.ErrReleased)
		}
		free(t, b, "k")

		lease = acquire(t, a, "k", lock.WithoutRenewal())
		ctx = lease.Context(t.Context())
		<-ctx.Done()
		wantErr(t, context.Cause(ctx), lock.ErrLost)
		wantErr(t, context.Cause(lease.Context(t.Context())), lock.ErrLost)
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
	})
}

// A lease does not keep a derived context whose parent has ended.
func TestEndedContextsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := acquire(t, locker(t, memory.New()), "k")
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			lease.Context(ctx)
			if lock.DerivedContexts(lease) != 1 {
				t.Error("the lease does not know of its context")
			}
			cancel()
			lease.Context(ctx)
			synctest.Wait()
			if n := lock.DerivedContexts(lease); n != 0 {
				t.Fatalf("%d contexts are kept", n)
			}
		}
		release(t, lease)
	})
}

// A boundContext is a context of an application that ends with a lease.
type boundContext struct {
	context.Context
	lease *lock.Lease
}

func (c boundContext) Done() <-chan struct{} { return c.lease.Lost() }
func (c boundContext) Err() error            { return c.lease.Err() }

// The context of Renew may call methods of the lease.
func TestRenewWithContextOfLease(t *testing.T) {
	l := locker(t, memory.New())
	lease := acquire(t, l, "k")
	renewed := make(chan error)
	go func() { renewed <- lease.Renew(boundContext{t.Context(), lease}, time.Minute) }()
	select {
	case err := <-renewed:
		wantErr(t, err, nil)
	case <-time.After(5 * time.Second):
		t.Fatal("Renew hangs")
	}
	release(t, lease)
}
