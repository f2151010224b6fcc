package conformance_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocShowsTestedCode compares the code of docs/write-a-backend.md with table_test.go.
func TestDocShowsTestedCode(t *testing.T) {
	doc, err := os.ReadFile("../docs/write-a-backend.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("table_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- snippet: (\\w+) -->\n```go\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if want := strings.Count(string(source), "// snippet: "); len(shown) != want {
		t.Errorf("the page shows %d snippets, table_test.go has %d", len(shown), want)
	}
	for _, s := range shown {
		_, code, _ := strings.Cut(string(source), "// snippet: "+s[1]+"\n")
		code, _, ok := strings.Cut(code, "\n// end\n")
		if !ok || strings.TrimSpace(code) != strings.TrimSpace(s[2]) {
			t.Errorf("snippet %s differs from table_test.go", s[1])
		}
	}
}
