package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/kit"
)

// waitNotice is how long a wait lasts before the holder is reported.
const waitNotice = 2 * time.Second

// A waitable reports why a wait for a key is not over. lock.Ops implements it.
type waitable interface {
	Inspect(ctx context.Context, key string) (lock.Holder, error)
	NotReady() error // why the store cannot grant yet: which of its servers cannot, until when, and why
}

// reportWaiting reports why the key is not granted yet. If the store is not ready, it reports that at once. Otherwise
// it reports the holder after waitNotice, with --verbose, or without --quiet if standard error is a terminal. stop ends
// the reports.
func (r *runner) reportWaiting(ctx context.Context, locks waitable) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() {
		reported := false
		for pause := time.Duration(0); kit.Sleep(ctx, pause) == nil; pause = waitNotice {
			switch err := locks.NotReady(); {
			case err != nil && !reported:
				reported = true
				r.say("waiting: %v", storeError(err))
			case err == nil && pause > 0:
				if r.app.verbose || !r.quiet && widthOf(r.app.stderr) > 0 {
					r.sayHolder(ctx, locks)
				}
				return
			}
		}
	})
	return func() {
		cancel()
		reporting.Wait()
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

// inspectPatience limits a request for the holder, which is needed for a message only.
const inspectPatience = 2 * time.Second

func inspect(ctx context.Context, locks waitable, key string) (lock.Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectPatience)
	defer cancel()
	return locks.Inspect(ctx, key)
}
