package main

import (
	"context"
	"sync"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// repeat calls f after every pause until stop is called. stop cancels the context of a call in progress and waits for
// the call.
func repeat(pause time.Duration, f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var repeating sync.WaitGroup
	repeating.Go(func() {
		for kit.Sleep(ctx, pause) == nil {
			f(ctx)
		}
	})
	return func() {
		cancel()
		repeating.Wait()
	}
}
