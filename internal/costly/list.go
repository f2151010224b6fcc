package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// costliest returns, in alphabetical order, the fewest checks that together take at least share of all costs.
func costliest(costs map[string]time.Duration, share float64) []string {
	names := slices.SortedFunc(maps.Keys(costs), func(a, b string) int {
		return cmp.Or(cmp.Compare(costs[b], costs[a]), strings.Compare(a, b))
	})
	wanted := time.Duration(math.Ceil(share * float64(sum(costs, names))))
	n := 0
	for taken := time.Duration(0); n < len(names) && taken < wanted; n++ {
		taken += costs[names[n]]
	}
	return slices.Sorted(slices.Values(names[:n]))
}

// sum returns the total cost of the named checks.
func sum(costs map[string]time.Duration, names []string) (total time.Duration) {
	for _, name := range names {
		total += costs[name]
	}
	return total
}

// source returns the text of conformance/costly.go.
func source(stores, list []string, costs map[string]time.Duration) []byte {
	var b bytes.Buffer
	all := slices.Collect(maps.Keys(costs))
	fmt.Fprintf(&b, `package conformance

// costly names the checks of the core that take the most processor time on a real server. "make costly" measures each
// check alone and writes this file. On %s the checks took
// %.0f CPU-seconds of %.0f.
var costly = []string{
`, strings.Join(stores, ", "), sum(costs, list).Seconds(), sum(costs, all).Seconds())
	for _, name := range list {
		fmt.Fprintf(&b, "\t%q,\n", name)
	}
	b.WriteString("}\n")
	return b.Bytes()
}
