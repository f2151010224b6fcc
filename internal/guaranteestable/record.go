// Package guaranteestable renders the guarantees of the stores for people, for programs, and for the README.
package guaranteestable

import (
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

// A Record is the JSON form of a driver.
type Record struct {
	Name       string     `json:"name"`
	Schemes    []string   `json:"schemes"`
	Examples   []string   `json:"examples"`
	Params     []Param    `json:"params,omitempty"`
	Guarantees Guarantees `json:"guarantees"`
	RoundTrips RoundTrips `json:"round_trips"`
}

// Param is the JSON form of driver.Param.
type Param struct {
	Name string `json:"name"`
	Type string `json:"type"` // text, duration, number, or true|false
	Help string `json:"help"`
}

func params(d driver.Driver) (list []Param) {
	for _, p := range d.AllParams() {
		list = append(list, Param{p.Name, p.Type.String(), p.Help})
	}
	return list
}

// RoundTrips is the JSON form of driver.RoundTrips.
type RoundTrips struct {
	Acquire string `json:"acquire"`
	Renew   string `json:"renew"`
	Release string `json:"release"`
}

// Guarantees is the JSON form of backend.Guarantees.
type Guarantees struct {
	Reach       string  `json:"reach"`
	Consistency string  `json:"consistency"`
	EarlyLoss   string  `json:"early_loss"` // empty: never
	ReportsLoss bool    `json:"reports_loss"`
	EnforcedBy  string  `json:"enforced_by"`
	MinTTL      float64 `json:"min_ttl_seconds"`
	Granularity float64 `json:"granularity_seconds"`
	MaxTTL      float64 `json:"max_ttl_seconds"`     // 0: ten years
	MaxSilence  float64 `json:"max_silence_seconds"` // 0: for the TTL
	MaxLeases   int     `json:"max_leases"`          // 0: any number
	MaxLate     float64 `json:"max_late_seconds"`
	Fencing     string  `json:"fencing"`
	FIFO        bool    `json:"fifo"`
	Wake        string  `json:"wake"`
	Shared      bool    `json:"shared"`
}

// Records returns the JSON form of drivers, in their order.
func Records(drivers []driver.Driver) []Record {
	records := make([]Record, 0, len(drivers))
	for _, d := range drivers {
		g := d.Guarantees
		records = append(records, Record{
			Name: d.Name, Schemes: d.Schemes(), Examples: d.Examples, Params: params(d),
			Guarantees: Guarantees{
				Reach: g.Reach.String(), Consistency: g.Consistency.String(), EarlyLoss: g.EarlyLoss,
				ReportsLoss: g.ReportsLoss, EnforcedBy: g.EnforcedBy, MinTTL: g.MinTTL.Seconds(),
				Granularity: g.Granularity.Seconds(), MaxTTL: g.MaxTTL.Seconds(), MaxSilence: g.MaxSilence.Seconds(),
				MaxLeases: g.MaxLeases,
				MaxLate:   g.MaxLate.Seconds(), Fencing: g.Fencing.String(), FIFO: g.FIFO, Wake: g.Wake.String(),
				Shared: g.Shared,
			},
			RoundTrips: RoundTrips(d.RoundTrips),
		})
	}
	return records
}

// reach describes which owners exclude each other.
func reach(r backend.Reach) string {
	switch r {
	case backend.ReachProcess:
		return "one process"
	case backend.ReachHost:
		return "one host"
	case backend.ReachNetwork:
		return "all hosts that share the store"
	}
	return r.String()
}

// fencing describes the events across which tokens keep their order.
func fencing(f backend.Fencing) string {
	switch f {
	case backend.FencingNone:
		return "no tokens"
	case backend.FencingProcess:
		return "release, expiry"
	case backend.FencingRestart:
		return "release, expiry, restart"
	case backend.FencingLoss:
		return "release, expiry, restart, loss of data"
	}
	return f.String()
}

// waiting describes in which order waiters are granted the key, and how they notice that it is free.
func waiting(g backend.Guarantees) string {
	order, wake := "any order", "by polling"
	if g.FIFO {
		order = "in order of arrival"
	}
	if g.Wake == backend.WakePush {
		wake = "notified"
	}
	return order + ", " + wake
}

func earlyLoss(g backend.Guarantees) string {
	if g.EarlyLoss == "" {
		return "never"
	}
	return g.EarlyLoss
}

func most(d time.Duration, unlimited string) string {
	if d == 0 {
		return unlimited
	}
	return d.String()
}

func duration(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}
