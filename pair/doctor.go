package pair

import (
	"context"
	"strings"

	"github.com/anylock/lock/backend"
)

// Examine implements backend.Examiner. Where begins with the name of the store that a finding is about.
func (b *Backend) Examine(ctx context.Context) (all []backend.Finding, err error) {
	err = b.leases.Call(ctx, nil, func(ctx context.Context) error {
		return forEachStore(b, func(s Store, e backend.Examiner) error {
			list, err := e.Examine(ctx)
			for _, f := range list {
				f.Where = strings.TrimSpace(s.Name + " " + f.Where)
				all = append(all, f)
			}
			return err
		})
	})
	return all, err
}
