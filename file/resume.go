package file

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements backend.Resumer.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (lease backend.Lease, err error) {
	err = b.leases.Call(ctx, r.Validate(), func(ctx context.Context) error {
		lease, err = b.resume(ctx, r)
		return err
	})
	return lease, err
}

func (b *Backend) resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	g := kit.Grant{Sent: time.Now(), TTL: b.Guarantees().Round(r.TTL)}
	post := messages{inbox: b.inbox}
	defer post.drop()
	err := b.store.update(ctx, r.Key, access{spare: true}, func(rec *record, now int64) (bool, error) {
		post.drop()
		if rec.owner != r.Owner {
			return false, backend.ErrLost
		}
		expires := now + int64(g.TTL)
		if expires < rec.expires {
			rec.rouse(&post)
		}
		rec.expires, g.Token = expires, rec.token
		return true, nil
	})
	switch {
	case errors.Is(err, errAbsent):
		return nil, backend.ErrLost
	case err != nil:
		return nil, err
	}
	post.send()
	l, err := b.leases.Resume(r, g)
	if err != nil {
		return nil, err
	}
	return l, nil
}
