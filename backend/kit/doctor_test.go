package kit_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

func TestCompareClocks(t *testing.T) {
	sent := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	received := sent.Add(3 * time.Second) // a slow reply leaves the server's time uncertain
	for off, want := range map[time.Duration]string{
		0: "", 3500 * time.Millisecond: "", -1500 * time.Millisecond: "",
		5 * time.Second: "ahead of this machine's by 2s", -5 * time.Second: "behind this machine's by 4s",
	} {
		list := kit.CompareClocks("there", sent.Add(off), time.Second, sent, received)
		switch {
		case want == "" && len(list) > 0:
			t.Errorf("%v: %+v", off, list)
		case want != "" && (len(list) != 1 || !strings.Contains(list[0].Found, want) || list[0].Where != "there"):
			t.Errorf("%v: %+v, want %s", off, list, want)
		}
	}
}

// A distant store answers after away. It is not an Examiner.
type distant struct {
	backend.Backend
	away time.Duration
}

func (distant) Guarantees() backend.Guarantees { return backend.Guarantees{MinTTL: time.Second} }

func (d distant) Inspect(context.Context, string) (backend.Holder, error) {
	time.Sleep(d.away) // sleeps: in fake time
	return backend.Holder{}, nil
}

func TestExamineComparesRoundTripsWithTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			away, ttl time.Duration
			codes     string
		}{
			{50 * time.Millisecond, time.Millisecond, "not-examined"}, // the store rounds the TTL up to a second
			{51 * time.Millisecond, time.Millisecond, "slow-round-trip not-examined"},
			{51 * time.Millisecond, 2 * time.Second, "not-examined"},
		} {
			list, err := kit.Examine(t.Context(), distant{away: c.away}, "k", c.ttl)
			var codes []string
			for _, f := range list {
				codes = append(codes, f.Code)
			}
			if got := strings.Join(codes, " "); got != c.codes || err != nil {
				t.Errorf("%+v: %s, error %v", c, got, err)
			}
		}
	})
}
