package pair

import (
	"context"
	"fmt"
	"strings"

	"github.com/anylock/lock/backend"
)

// Examine implements backend.Examiner. Where begins with the name of the store that a finding is about.
func (b *Backend) Examine(ctx context.Context) (all []backend.Finding, err error) {
	err = b.leases.Call(ctx, nil, func(ctx context.Context) error {
		for _, s := range []Store{b.first, b.second} {
			e, ok := s.Backend.(backend.Examiner)
			if !ok {
				continue
			}
			list, err := e.Examine(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			for _, f := range list {
				f.Where = strings.TrimSpace(s.Name + " " + f.Where)
				all = append(all, f)
			}
		}
		return nil
	})
	return all, err
}
