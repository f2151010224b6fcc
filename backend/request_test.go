package backend_test

import (
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// ValidateFor refuses a request that exceeds the guarantees of a store. Validate assumes a store without a MaxTTL of
// its own and without shared leases.
func TestValidateFor(t *testing.T) {
	good := backend.Request{Key: "k", Owner: "o", TTL: time.Minute}
	shared, long := good, good
	shared.Shared = true
	long.TTL = time.Hour
	bound := backend.Guarantees{MaxTTL: time.Minute}
	for what, c := range map[string]struct{ got, want error }{
		"good":                   {good.Validate(), nil},
		"at the bound":           {good.ValidateFor(bound), nil},
		"over the bound":         {long.ValidateFor(bound), backend.ErrInvalid},
		"long, no bound":         {long.Validate(), nil},
		"shared, not promised":   {shared.ValidateFor(bound), backend.ErrUnsupported},
		"shared, nothing known":  {shared.Validate(), backend.ErrUnsupported},
		"shared, promised":       {shared.ValidateFor(backend.Guarantees{Shared: true}), nil},
		"exclusive, both served": {good.ValidateFor(backend.Guarantees{Shared: true}), nil},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}
