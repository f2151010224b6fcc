package redis

import (
	"context"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// The suite asks for TTLs up to backend.MaxTTL.
const anyTTL = paramMaxTTL + "=87600h"

func TestRedlockConformance3(t *testing.T) { redlockConformance(t, 3) }

func TestRedlockConformance5(t *testing.T) { redlockConformance(t, 5) }

func redlockConformance(t *testing.T, size int) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		f := startFleet(t, size, durable...)
		f.bootstrap()
		each := func(do func(i int)) {
			for i := range f.nodes {
				do(i)
			}
		}
		h := conformance.Harness{
			Open:    func(ctx context.Context) (backend.Backend, error) { return openRedlockURL(ctx, f.url(anyTTL)) },
			Evict:   f.evict,
			Freeze:  func() { each(func(i int) { f.nodes[i].Freeze() }) },
			Thaw:    func() { each(func(i int) { f.nodes[i].Thaw() }) },
			Restart: func() { each(func(i int) { f.nodes[i].Kill() }); each(func(i int) { f.nodes[i].Start() }) },
			Cut:     func(backend.Backend) { each(func(i int) { cut(t, f.nodes[i].Addr) }) },
			Many:    64,
		}
		for _, n := range f.nodes {
			h.Members = append(h.Members, conformance.Member{Freeze: n.Freeze, Thaw: n.Thaw, Stop: n.Kill, Start: n.Start})
		}
		return h
	})
}
