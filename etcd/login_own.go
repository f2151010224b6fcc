package etcd

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// keepLoggedIn keeps an application's own client logged in, if it has a user and the servers issue tokens that say when
// they expire.
//
// clientv3 logs in again for each request whose token is rejected. Then the log-ins of many callers delay each other,
// and servers before 3.5 reject even a log-in that carries an expired token, so that the client is locked out for good.
// But clientv3 also logs in whenever it opens a stream. So keepLoggedIn opens one while the token is still valid.
func (b *Backend) keepLoggedIn(ctx context.Context) error {
	if b.client.Username == "" || b.client.Password == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	begun := time.Now()
	resp, err := b.client.Auth.Authenticate(ctx, b.client.Username, b.client.Password)
	if errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return nil
	}
	if err != nil {
		return err
	}
	if lifetime := validity(resp.Token, begun); lifetime > 0 { // as that of all later tokens
		err = b.logInByStream(ctx)
		b.logInLater(lifetime / 2)
	}
	return err
}

// logInLater logs in after an interval, and again after the same interval, until Close.
func (b *Backend) logInLater(interval time.Duration) {
	const soonest, retry = 500 * time.Millisecond, time.Second
	interval = max(interval, soonest)
	var next func(d time.Duration)
	next = func(d time.Duration) {
		time.AfterFunc(d, func() {
			if b.isClosing() || !b.calls.Begin() {
				return
			}
			defer b.calls.End()
			ctx, cancel := context.WithTimeout(b.base, b.options.Timeout)
			defer cancel()
			if b.logInByStream(ctx) != nil {
				next(min(interval, retry))
				return
			}
			next(interval)
		})
	}
	next(interval)
}

// logInByStream makes clientv3 log in and replace its token.
func (b *Backend) logInByStream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the stream has served its purpose
	_, err := pb.NewWatchClient(b.client.ActiveConnection()).Watch(ctx)
	return err
}
