package bench

import (
	"strings"
	"testing"
)

// What a server or a caller wrote neither breaks a line of the tables nor moves the cursor.
func TestHostileTexts(t *testing.T) {
	const hostile = "a\r\nb\x1b[2J\u202e|"
	m := Rate
	for what, r := range map[string]Result{
		"problem": {Problem: "ERR " + hostile}, "skipped": {Skipped: hostile}, "note": {Note: hostile},
	} {
		r.Scenario, r.Store = "serial", hostile
		b := &Report{
			Server: hostile, Stores: []StoreInfo{{hostile, hostile}},
			Scenarios: []ScenarioInfo{{Name: "serial", Title: "a title", Main: m.Name}}, Results: []*Result{&r},
		}
		var text strings.Builder
		if err := b.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		clean := &Report{
			Server: "a", Stores: []StoreInfo{{"a", "a"}}, Scenarios: b.Scenarios,
			Results: []*Result{{Scenario: "serial", Store: "a", Problem: "a"}},
		}
		var plain strings.Builder
		if err := clean.WriteText(&plain); err != nil {
			t.Fatal(err)
		}
		for kind, pair := range map[string][2]string{
			"text":     {text.String(), plain.String()},
			"markdown": {b.MarkdownTable("serial"), clean.MarkdownTable("serial")},
		} {
			got, want := pair[0], pair[1]
			if strings.ContainsAny(got, "\r\x1b\u202e") || strings.Count(got, "\n") != strings.Count(want, "\n") {
				t.Errorf("%s, %s: %q", what, kind, got)
			}
			if !strings.Contains(got, `\x1b`) {
				t.Errorf("%s, %s does not show the text: %q", what, kind, got)
			}
		}
	}
}
