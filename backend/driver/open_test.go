package driver

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

// closable is a store that records whether it was closed.
type closable struct {
	backend.Backend
	closed atomic.Bool
}

func (c *closable) Close() error {
	c.closed.Store(true)
	return nil
}

// Opening ends when its context ends, or soon after, whatever the driver does. A backend that is ready later is closed.
func TestOpenEndsWithItsContext(t *testing.T) {
	errDown := errors.New("down")
	for name, c := range map[string]struct {
		takes time.Duration
		fails error
		want  error
		after time.Duration
	}{
		"in time":                  {time.Second, nil, nil, time.Second},
		"fails in time":            {time.Second, errDown, errDown, time.Second},
		"too late":                 {time.Minute, nil, context.DeadlineExceeded, 2*time.Second + 50*time.Millisecond},
		"fails too late":           {time.Minute, errDown, context.DeadlineExceeded, 2*time.Second + 50*time.Millisecond},
		"fails soon after the end": {2*time.Second + time.Millisecond, errDown, errDown, 2*time.Second + time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(closable)
				d := Driver{
					URLs: []URLForm{{Scheme: "slow"}},
					Open: func(context.Context, URL) (backend.Backend, error) {
						time.Sleep(c.takes)
						if c.fails != nil {
							return (*closable)(nil), c.fails
						}
						return store, nil
					},
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				begun := time.Now()
				b, err := d.OpenURL(ctx, "slow:")
				if took := time.Since(begun); took != c.after || !errors.Is(err, c.want) || (err == nil) != (b != nil) {
					t.Errorf("%v, %v after %v, want %v after %v", b, err, took, c.want, c.after)
				}
				time.Sleep(2 * time.Minute)
				if closed := store.closed.Load(); closed != (b == nil && c.fails == nil) {
					t.Errorf("closed: %v", closed)
				}
			})
		})
	}
}
