package bugmatrix

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadReturnsWhatWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "matrix.tsv")
	if m, err := Read(file); err != nil || len(m.Checks) != 0 || len(m.Rows) != 0 {
		t.Fatalf("no file: %v, %v", m, err)
	}
	want := Matrix{[]string{"B", "A"}, map[string][]string{"two, of both": {"B", "A"}, "found by chance": {}}}
	if err := want.Write(file); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil || !slices.Equal(got.Checks, want.Checks) || !maps.EqualFunc(got.Rows, want.Rows, slices.Equal) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got.Findings() != 2 {
		t.Errorf("%d findings, want 2", got.Findings())
	}
}

func TestReadRefusesDamage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "matrix.tsv")
	for _, text := range []string{"bug\tx\t0\n", "check\tA\nbug\tx\t1\n", "check\tA\nbug\tx\t-1\n", "check\tA\nbug\tx\n",
		"chec", "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if m, err := Read(file); err == nil {
			t.Errorf("%q: %v", text, m)
		}
	}
}

func TestCover(t *testing.T) {
	for _, test := range []struct{ name, rows, always, want string }{
		{"nothing to find", "", "", ""},
		{"the check that finds most", "AB BC BD", "", "B"},
		{"the first of equals", "AB AB", "", "A"},
		{"only one check finds a bug", "AB B", "", "B"},
		{"always", "AB", "C", "AC"},
		{"always is enough", "AC BC", "C", "C"},
		// C finds most rows and is added first. Later A and B, which AD and BE need, make C superfluous.
		{"needless in the end", "AC AC BC BC AD BE", "", "AB"},
		{"unknown checks", "AX XY X", "", "A"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var rows [][]string
			for _, row := range strings.Fields(test.rows) {
				rows = append(rows, strings.Split(row, ""))
			}
			checks := []string{"A", "B", "C", "D", "E"}
			if got := strings.Join(Cover(checks, rows, strings.Split(test.always, "")), ""); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
