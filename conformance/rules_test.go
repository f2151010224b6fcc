package conformance_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// TestRules checks that the numbers of rules can be read from their texts, and that checks prove every rule.
func TestRules(t *testing.T) {
	var proved []int
	for _, c := range conformance.Checks() {
		rules := c.Rules()
		if named := strings.HasPrefix(c.Rule, "rule ") || strings.HasPrefix(c.Rule, "rules "); named != (len(rules) > 0) {
			t.Errorf("%s: numbers %v of %q", c.Name, rules, c.Rule)
		}
		proved = append(proved, rules...)
	}
	slices.Sort(proved)
	if proved = slices.Compact(proved); !slices.Equal(proved, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
		t.Errorf("the checks prove rules %v", proved)
	}
	c := conformance.Check{Rule: "rules 1, 7 and 10: of 3 leases"}
	if rules := c.Rules(); !slices.Equal(rules, []int{1, 7, 10}) {
		t.Errorf("numbers %v of %q", rules, c.Rule)
	}
}

// TestNeeds checks that Missing names an existing field, or backend.Resumer.
func TestNeeds(t *testing.T) {
	fields := map[string]reflect.Type{
		"Guarantees": reflect.TypeFor[backend.Guarantees](),
		"Harness":    reflect.TypeFor[conformance.Harness](),
		"Member":     reflect.TypeFor[conformance.Member](),
	}
	for _, c := range conformance.Checks() {
		for _, n := range c.Needs {
			of, field, _ := strings.Cut(n.Missing, ".")
			if n.Missing == "backend.Resumer" {
				continue
			}
			if fields[of] == nil {
				t.Errorf("%s needs %q", c.Name, n.Missing)
			} else if _, ok := fields[of].FieldByName(field); !ok {
				t.Errorf("%s needs %q: there is no such field", c.Name, n.Missing)
			}
			if n.Guarantee() != (of == "Guarantees") || n.Reason == "" {
				t.Errorf("%s needs %q: a guarantee %v, for the reason %q", c.Name, n.Missing, n.Guarantee(), n.Reason)
			}
		}
	}
}
