package pair

import (
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
)

// weaker returns what two stores promise together. The package's comment lists each field.
func weaker(first, second Store) backend.Guarantees {
	a, b := first.Backend.Guarantees(), second.Backend.Guarantees()
	return backend.Guarantees{
		MinTTL:      max(a.MinTTL, b.MinTTL),
		Granularity: max(a.Granularity, b.Granularity),
		MaxTTL:      smaller(a.MaxTTL, b.MaxTTL),
		MaxSilence:  smaller(a.MaxSilence, b.MaxSilence),
		MaxLate:     max(a.MaxLate, b.MaxLate),
		MaxLeases:   smaller(a.MaxLeases, b.MaxLeases),
		EarlyLoss:   joinTexts(first.Name, a.EarlyLoss, second.Name, b.EarlyLoss),
		ReportsLoss: a.ReportsLoss && b.ReportsLoss,
		EnforcedBy:  joinTexts(first.Name, a.EnforcedBy, second.Name, b.EnforcedBy),
		Fencing:     min(a.Fencing, b.Fencing),
		Wake:        min(a.Wake, b.Wake),
		Consistency: min(a.Consistency, b.Consistency),
		Reach:       min(a.Reach, b.Reach),
		Shared:      a.Shared && b.Shared,
	}
}

// smaller returns the smaller of two limits, where 0 means no limit.
func smaller[T int | time.Duration](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// joinTexts returns the texts of both stores, each with its store's name, or only one if the other is empty or equal.
func joinTexts(first, a, second, b string) string {
	switch {
	case a == b || b == "":
		return a
	case a == "":
		return b
	}
	return fmt.Sprintf("%s: %s; %s: %s", first, a, second, b)
}
