package conformance_test

import "github.com/anylock/lock/backend"

const (
	silentBatch   = "OnLost is silent when a batch hears of the loss"
	silentRelease = "OnLost is silent when a release hears of the loss"
)

// silentMutants are bugs of requests whose reply ends a lease.
var silentMutants = []mutant{
	{silentBatch, "OnLostCallsWhateverEndsIt"},
	{silentRelease, "OnLostCallsWhateverEndsIt"},
}

// silences suppresses the OnLost callbacks of renewals until end is called, as a bug.
func (c *client) silences(renewals []backend.Renewal) (end func()) {
	set := func(silent bool) {
		for _, r := range renewals {
			if b, ok := r.Lease.(*bent); ok && c.is(silentBatch) {
				b.silent.Store(silent)
			}
		}
	}
	set(true)
	return func() { set(false) }
}
