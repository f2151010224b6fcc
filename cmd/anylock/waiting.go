package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/kit"
)

// waitNotice is how long a wait lasts before people see what for.
const waitNotice = 2 * time.Second

// A waitable is what lock.Ops reports while one waits for a key.
type waitable interface {
	Inspect(ctx context.Context, key string) (lock.Holder, error)
	NotReady() error // why the store cannot grant anything yet: which of its servers, until when and why
}

// tellWaiting says why there is no lease yet: at once if the store is not ready, and after waitNotice who holds the
// key, where somebody looks. stop ends it.
func (r *runner) tellWaiting(ctx context.Context, locks waitable) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		said := false
		for pause := time.Duration(0); kit.Sleep(ctx, pause) == nil; pause = waitNotice {
			switch err := locks.NotReady(); {
			case err != nil && !said:
				said = true
				r.say("waiting: %v", storeError(err))
			case err == nil && pause > 0:
				if r.app.verbose || widthOf(r.app.stderr) > 0 {
					r.sayHolder(ctx, locks)
				}
				return
			}
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}

func (r *runner) sayHolder(ctx context.Context, locks waitable) {
	by := ""
	if h, err := inspect(ctx, locks, r.key); err == nil && h.Held() {
		by = ", held by " + holderText(h)
	}
	if ctx.Err() == nil {
		r.notices.add(fmt.Sprintf("waiting for %s%s", show(r.key), by))
	}
}

// inspectPatience is how long asking for the holder may take, for a message only.
const inspectPatience = 2 * time.Second

func inspect(ctx context.Context, locks waitable, key string) (lock.Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectPatience)
	defer cancel()
	return locks.Inspect(ctx, key)
}
