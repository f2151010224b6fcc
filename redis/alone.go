package redis

import (
	"context"
	"time"
)

// enterAlone reports whether a request goes alone: nothing is under way, and it can be ended on its caller's goroutine.
func (l *lanes) enterAlone(ctx context.Context) bool {
	if l.solo == nil && (!l.inline || ctx.Done() != nil) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open > 0 || !l.shun.IsZero() && time.Now().Before(l.shun) {
		return false
	}
	l.open++
	return true
}

func (l *lanes) alone(ctx context.Context, end time.Time, q request) (any, error) {
	if l.solo != nil {
		return l.solo.do(ctx, end, q)
	}
	begun := time.Now()
	fctx, cancel := endingAt(ctx, end)
	defer cancel()
	v, err := q.run(fctx, l.client)
	if err != nil && !isReply(err) && fctx.Err() != nil {
		err = noAnswer(time.Since(begun), err)
	}
	return v, err
}

// shunTime is for how long a connection that failed is left alone: another dial of it may hang.
const shunTime = 2 * time.Second

func (l *lanes) leaveAlone(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if err != nil && !isReply(err) {
		l.shun = time.Now().Add(shunTime)
	} else if !l.shun.IsZero() {
		l.shun = time.Time{}
	}
	if len(l.queue) > 0 && l.open < usualLanes {
		l.openLocked()
	}
}
