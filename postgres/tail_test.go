package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// If only a part of an acquire reaches the server, the key is not held for longer than the TTL, although the server
// runs no timer while it waits for the rest.
func TestLostTail(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for mode, params := range variants {
		for _, wait := range []bool{false, true} {
			for _, lose := range []int{1, 5, 6, 40} { // a Sync is 5 bytes long
				t.Run(fmt.Sprintf("%s/wait=%v/%d", mode, wait, lose), func(t *testing.T) {
					t.Parallel()
					s, p, b := proxied(t, params)
					c := dialed(t, s.PostgresURL())
					release(t, acquire(t, b, req("other", time.Minute)))
					rest(t, b)
					p.set(func(p *proxy) { p.tail = lose })
					r := req("k", ttl)
					r.Wait = wait
					ctx, cancel := context.WithTimeout(context.Background(), ttl)
					defer cancel()
					if _, err := b.Acquire(ctx, r); err == nil {
						t.Fatal("granted by a part of a request")
					}
					until(t, ttl+maxLate+soon, "the key is free", func() bool { return locks(t, c) == 0 })
				})
			}
		}
	}
}
