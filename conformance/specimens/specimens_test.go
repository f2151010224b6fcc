package specimens

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/anylock/lock/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const source = `package x

func take() {}

type store struct{}

func (s *store) remove() {}
`

// folder returns a folder with a package with the given source.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func good() Specimen {
	return Specimen{
		Name: "a-sin", Title: "t", Story: "s", See: "s", Right: "r", Sin: []string{"take"}, Virtue: []string{"store.remove"},
		Kills: []Kill{{Check: "C", Says: "says"}},
	}
}

func TestValidate(t *testing.T) {
	dir := folder(t)
	if err := (Collection{Specimens: []Specimen{good()}}).validate(dir); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(s *Specimen){
		"its name":           func(s *Specimen) { s.Name = "A sin" },
		"is empty":           func(s *Specimen) { s.Story = "" },
		"declares no taken":  func(s *Specimen) { s.Sin = []string{"taken"} },
		"declares no remove": func(s *Specimen) { s.Virtue = []string{"remove"} },
		"Kills":              func(s *Specimen) { s.Kills = nil },
		"may say anything":   func(s *Specimen) { s.Kills = []Kill{{Check: "C"}} },
	} {
		s := good()
		spoil(&s)
		if err := (Collection{Specimens: []Specimen{s}}).validate(dir); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want an error with %q", err, what)
		}
	}
	if err := (Collection{Specimens: []Specimen{good(), good()}}).validate(dir); err == nil {
		t.Error("a name is taken twice")
	}
}

func TestRecord(t *testing.T) {
	dir := folder(t)
	c := Collection{Store: "X", Specimens: []Specimen{good()}}
	if c.hasEvidence() == nil {
		t.Error("a collection without evidence has some")
	}
	c.Specimens[0].Kills[0].Evidence = "it says <so>"
	if err := c.hasEvidence(); err != nil {
		t.Error(err)
	}
	if err := c.write(dir); err != nil {
		t.Fatal(err)
	}
	read, err := Read(dir)
	if err != nil || string(read.marshal()) != string(c.marshal()) {
		t.Errorf("read %s, %v, want %s", read.marshal(), err, c.marshal())
	}
	if bare := c.withoutEvidence(); bare.hasEvidence() == nil || c.hasEvidence() != nil {
		t.Error("withoutEvidence leaves some, or takes it from the original")
	}
}

func TestExcerpt(t *testing.T) {
	lines := []string{"1", "2", "3", "4", "5", "6 says", "7"}
	if got := excerpt(strings.Join(lines[:4], "\n"), "3"); got != "1\n2\n3\n4" {
		t.Errorf("%q", got)
	}
	if got := excerpt(strings.Join(lines, "\n"), "1"); got != "1\n2\n3\n4\n5\n…" {
		t.Errorf("%q", got)
	}
	if got := excerpt(strings.Join(lines, "\n"), "says"); got != "…\n3\n4\n5\n6 says\n7" {
		t.Errorf("%q", got)
	}
	if got := excerpt(strings.Join(lines, "\n"), "2\n3"); got != strings.Join(lines, "\n") {
		t.Errorf("%q", got)
	}
}

func TestProofSparesEachCheckOnce(t *testing.T) {
	one, two, three := good(), good(), good()
	two.Name, three.Name = "two", "three"
	c := Collection{Specimens: []Specimen{one, two, three}}
	p := &proof{collection: c, special: make(map[string]HarnessMaker)}
	For("two", func(*testing.T, Open) (h conformance.Harness) { return h })(p)
	all := p.spare()
	if len(all) != 2 || all[0] != (sparing{check: "C"}) || all[1] != (sparing{"two", "C"}) {
		t.Errorf("%v", all)
	}
}
