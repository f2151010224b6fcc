package pair

import (
	"cmp"
	"context"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements backend.Resumer.
func (b listingResuming) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return resuming{b.Backend}.Resume(ctx, r)
}

// Resume implements backend.Resumer. It resumes both halves, the second store's first: a process that waits for the
// second store has no lease, only the first half. If one half cannot be resumed, the other may have been extended. Both
// stores must be Resumers.
func (b resuming) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	invalid := cmp.Or(r.ValidateFor(b.guarantees), b.validateKey(r.Key))
	return kit.Call(ctx, b.leases, invalid, func(ctx context.Context) (backend.Lease, error) {
		stores := []Store{b.second, b.first}
		var names [2][]string
		for i, s := range stores { // check both stores before extending either half
			var err error
			if names[i], _, err = s.namesOf(ctx, r.Key, r.Owner); err != nil || names[i] == nil {
				return nil, cmp.Or(err, backend.ErrLost)
			}
		}
		half := r
		half.TTL = b.guarantees.Round(r.TTL)
		h := &halves{releaseBegun: make(chan struct{})}
		for i, l := range []*backend.Lease{&h.second, &h.first} {
			err := tryEach(names[i], func(name string) (err error) {
				half.Key, half.Owner = stores[i].Prefix+r.Key, name
				*l, err = stores[i].Backend.(backend.Resumer).Resume(ctx, half)
				return err
			})
			if err != nil {
				return nil, err
			}
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
		return &lease{life, b.Backend, h}, nil
	})
}
