package guaranteestable

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

// drivers are two opposite stores. The second has texts that a table can hold only escaped or in a note.
var drivers = []driver.Driver{
	{
		Name: "strong", URLs: []driver.URLForm{{Scheme: "strong"}, {Scheme: "strongs"}},
		Examples: []string{"strong://host", "strongs://host"},
		Params: []driver.Param{{Name: "lock_zebra", Help: "stripes", Type: driver.Bool},
			{Name: "lock_ant", Type: driver.Number, Help: "legs"}},
		OtherParams: "zoolib",
		Guarantees: backend.Guarantees{
			MinTTL: time.Second, MaxTTL: time.Hour, MaxSilence: 40 * time.Second, Granularity: time.Second,
			MaxLate: 1500 * time.Millisecond, EnforcedBy: "server clock",
			Fencing: backend.FencingLoss, FIFO: true, Wake: backend.WakePush, Consistency: backend.Linearizable,
			Reach: backend.ReachNetwork, Shared: true,
		},
		RoundTrips: driver.RoundTrips{Acquire: "1-2", Renew: "1", Release: "1 per node"},
	},
	{
		Name: "weak", URLs: []driver.URLForm{{Scheme: "weak"}}, Examples: []string{"weak:a|b"},
		Guarantees: backend.Guarantees{EarlyLoss: "eviction | restart <any>; a text that is longer than a table can bear " +
			"in one of its cells", EnforcedBy: "hope"},
		RoundTrips: driver.RoundTrips{Acquire: "0", Renew: "0", Release: "0"},
	},
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	if err := Markdown(&b, drivers); err != nil {
		t.Fatal(err)
	}
	const want = "" +
		"| | strong | weak |\n" +
		"|---|---|---|\n" +
		"| scope | all hosts that share the store | one process |\n" +
		"| exclusion | linearizable | best effort |\n" +
		"| the store may drop a live lease | never | see below |\n" +
		"| a holder learns soon that its lease was removed | no | no |\n" +
		"| expiry is measured by | server clock | hope |\n" +
		"| shortest TTL | 1s | none |\n" +
		"| longest TTL | 1h0m0s | 10 years |\n" +
		"| a disconnected holder keeps its key for at most | 40s | its TTL |\n" +
		"| TTLs are rounded up to | 1s | none |\n" +
		"| leases per client | any number | any number |\n" +
		"| after the TTL, a dead holder's key is free within | 1.5s | 0s |\n" +
		"| waiters get the key | in order of arrival, notified | any order, by polling |\n" +
		"| readers can share a key | yes | no |\n" +
		"| fencing tokens grow across | release, expiry, restart, loss of data | no tokens |\n" +
		"| requests per acquire, renewal, release | 1-2, 1, 1 per node | 0, 0, 0 |\n" +
		"\nThe store may drop a live lease:\n\n" +
		"- weak: eviction \\| restart &lt;any>; a text that is longer than a table can bear in one of its cells\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// A token does not help after a failure that may reset tokens.
func TestChoiceMarkdown(t *testing.T) {
	for f := backend.FencingNone; f <= backend.FencingLoss; f++ {
		var b strings.Builder
		weak := drivers[1]
		weak.Guarantees.Fencing = f
		if err := ChoiceMarkdown(&b, []driver.Driver{drivers[0], weak}); err != nil {
			t.Fatal(err)
		}
		second := "yes, and tokens may repeat then"
		if f >= backend.FencingRestart {
			second = "yes: check the token"
		}
		want := "" +
			"| store | scope | can a store failure let in a second holder? | waiters | shortest TTL |\n" +
			"|---|---|---|---|---|\n" +
			"| strong | all hosts that share the store | no | first come, first served | 1s |\n" +
			"| weak | one process | " + second + " | any order, they poll | none |\n"
		if b.String() != want {
			t.Errorf("tokens that survive %v: got\n%s\nwant\n%s", f, b.String(), want)
		}
	}
}

func TestURLsMarkdown(t *testing.T) {
	var b strings.Builder
	if err := URLsMarkdown(&b, drivers); err != nil {
		t.Fatal(err)
	}
	const want = "" +
		"| store | URL |\n" +
		"|---|---|\n" +
		"| strong | `strong://host`<br>`strongs://host` |\n" +
		"| weak | `weak:a%7Cb` |\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestParamsMarkdown(t *testing.T) {
	var b strings.Builder
	if err := ParamsMarkdown(&b, drivers[0]); err != nil {
		t.Fatal(err)
	}
	const want = "" +
		"| parameter | meaning |\n" +
		"|---|---|\n" +
		"| `lock_ant=number` | legs |\n" +
		"| `lock_zebra=true\\|false` | stripes |\n" +
		"| others | those of zoolib |\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestText(t *testing.T) {
	var b strings.Builder
	if err := Text(&b, drivers); err != nil {
		t.Fatal(err)
	}
	head := "strong (strong, strongs)\n  strong://host\n  strongs://host\n  ?lock_ant=number  legs\n  " +
		"?lock_zebra=true|false  stripes\n  other parameters: those of zoolib\n  scope: all"
	if !strings.HasPrefix(b.String(), head) {
		t.Errorf("got\n%s\nwant it to begin with\n%s", b.String(), head)
	}
	if !strings.Contains(b.String(), "\n\nweak (weak)\n") {
		t.Errorf("no paragraph of its own for the second driver:\n%s", b.String())
	}
}

// Programs that read the JSON depend on these words.
func TestRecords(t *testing.T) {
	text, err := json.Marshal(Records(drivers)[0].Guarantees)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"reach":"network","consistency":"linearizable","early_loss":"","reports_loss":false,"enforced_by":"server clock",` +
		`"min_ttl_seconds":1,"granularity_seconds":1,"max_ttl_seconds":3600,"max_silence_seconds":40,"max_leases":0,"max_late_seconds":1.5,"fencing":"data loss","fifo":true,"wake":"push","shared":true}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if text, _ := json.Marshal(Records(nil)); string(text) != "[]" {
		t.Errorf("no drivers: got %s, want []", text)
	}
}
