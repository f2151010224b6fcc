package pair

import (
	"context"
	"errors"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A resuming pair is one of two stores that return leases to other clients.
type resuming struct{ pair *Backend }

// Resume implements backend.Resumer. It resumes both halves, the second store's first: a process that waits for the
// second store has no lease, only the first store's half. If one half cannot be resumed, the other may have been
// extended.
func (p resuming) Resume(ctx context.Context, r backend.Request) (l backend.Lease, err error) {
	b := p.pair
	bad := r.ValidateFor(b.guarantees)
	if bad == nil {
		bad = b.validateKey(r.Key)
	}
	err = b.leases.Call(ctx, bad, func(ctx context.Context) error {
		resumed, err := b.resume(ctx, r)
		if err == nil {
			l = resumed // not a nil *lease
		}
		return err
	})
	return l, err
}

func (b *Backend) resume(ctx context.Context, r backend.Request) (*lease, error) {
	var owners [2][]string
	for i, s := range []Store{b.first, b.second} { // before either half is extended
		var err error
		if owners[i], err = s.ownersOf(ctx, r); err != nil {
			return nil, err
		}
	}
	half := r
	half.TTL = b.guarantees.Round(r.TTL)
	h := &halves{over: make(chan struct{})}
	var err error
	if h.second, err = b.second.resume(ctx, half, owners[1]); err != nil {
		return nil, err
	}
	if h.first, err = b.first.resume(ctx, half, owners[0]); err != nil {
		return nil, err
	}
	token, _, err := b.tokenOf(h)
	if err != nil {
		return nil, err
	}
	life, err := b.leases.Resume(r, kit.Grant{Token: token, Sent: b.sent(h, half.TTL), TTL: half.TTL, Data: h})
	if err != nil {
		return nil, err
	}
	h.watch(life)
	return &lease{life, b, h}, nil
}

// ownersOf returns the names under which the store may know the half of r's owner. ErrLost means that there are none.
func (s Store) ownersOf(ctx context.Context, r backend.Request) (owners []string, err error) {
	h, err := s.Backend.Inspect(ctx, s.Prefix+r.Key)
	switch {
	case err != nil:
		return nil, err
	case isNumbered(h.Owner, r.Owner):
		return []string{h.Owner}, nil
	case h.Shared == 0:
		return nil, backend.ErrLost
	}
	for before := range maxNumber + 1 { // Inspect names another reader, whose lease ends later
		owners = append(owners, numbered(r.Owner, before))
	}
	return owners, nil
}

// resume returns the half that one of owners has at the store.
func (s Store) resume(ctx context.Context, r backend.Request, owners []string) (l backend.Lease, err error) {
	r.Key = s.Prefix + r.Key
	for _, r.Owner = range owners {
		l, err = s.Backend.(backend.Resumer).Resume(ctx, r)
		if !errors.Is(err, backend.ErrLost) {
			return l, err
		}
	}
	return nil, backend.ErrLost
}
