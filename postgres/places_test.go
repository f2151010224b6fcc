package postgres

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// A writer for whom no place at the server is free gets its turn behind readers that succeed each other without end.
func TestWriterWithoutPlace(t *testing.T) {
	t.Parallel()
	const readers = 12
	b := opened(t, gentleURL(t)+"&lock_max_leases=4") // two places
	key := backend.NewOwner()
	ctx, cancel := context.WithCancel(context.Background())
	var streaming, all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	streaming.Add(readers)
	for range readers {
		all.Go(func() {
			var first sync.Once
			for ctx.Err() == nil {
				l, err := b.Acquire(ctx, asReader(waiting(key, time.Minute)))
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					break
				}
				first.Do(streaming.Done)
				time.Sleep(5*time.Millisecond + rand.N(10*time.Millisecond)) // sleeps: how long a reader holds the key
				if err := l.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
			first.Do(streaming.Done)
		})
	}
	streaming.Wait()
	o := granted(t, startAcquire(context.Background(), b, waiting(key, time.Minute)), soon)
	release(t, o.Lease)
}
