package locktests

import (
	"encoding/json"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/anylock/lock"
)

// A Config means the same in YAML as in JSON.
func TestConfigInYAML(t *testing.T) {
	const (
		asJSON = `{"url": "memory:", "prefix": "p/", "ttl": "1m30s", "max_hold": "1h", "min_hold": "1s", "wait": "5s",
			"no_renewal": true, "reentrant": true, "handoff": 0, "require": "fifo,fencing=process"}`
		asYAML = `
url: "memory:"
prefix: p/
ttl: 1m30s
max_hold: 1h
min_hold: 1s
wait: 5s
no_renewal: true
reentrant: true
handoff: 0
require: fifo,fencing=process
`
	)
	var fromJSON, fromYAML lock.Config
	if err := json.Unmarshal([]byte(asJSON), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(asYAML), &fromYAML); err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(fromJSON)
	if got, _ := json.Marshal(fromYAML); string(got) != string(want) {
		t.Errorf("YAML gives %s, JSON %s", got, want)
	}
}
