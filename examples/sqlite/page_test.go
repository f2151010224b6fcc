//go:build linux

package sqlite

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const pageFile = "../../docs/write-a-backend.md"

// A block of the page is code behind a comment that tells what to do with it: run it, write it to a new file, append it to
// one, or compare it with what the last command has shown, or with the file of this module that it is from.
type pageBlock struct{ do, name, code string }

var pageBlocks = regexp.MustCompile("(?ms)^<!-- (run|write|append|shows|from)(?:: (\\S+))? -->\n```\\w+\n(.*?)^```$")

func readPage(t *testing.T) (blocks []pageBlock) {
	t.Helper()
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range pageBlocks.FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, pageBlock{m[1], m[2], m[3]})
	}
	if unmarked := strings.Count(string(page), "\n```") - 2*len(blocks); unmarked != 0 {
		t.Errorf("%d fences of the page belong to no block", unmarked)
	}
	return blocks
}

// TestPage does in an empty folder what docs/write-a-backend.md says, and looks at what it promises. Only the published module
// is replaced, by this one.
func TestPage(t *testing.T) {
	f := &follower{t: t, dir: t.TempDir(), files: make(map[string]string)}
	copied, ran := 0, false // until the suite first runs
	for _, b := range readPage(t) {
		switch b.do {
		case "write":
			f.write(b.name, b.code)
		case "append":
			f.write(b.name, f.files[b.name]+"\n"+b.code)
		case "run":
			for command := range strings.Lines(b.code) {
				f.run(strings.TrimSpace(command))
				ran = ran || strings.HasPrefix(command, "go test")
			}
		case "shows":
			f.shows(b.code)
		case "from":
			if file, err := os.ReadFile("../../" + b.name); err != nil || !strings.Contains(string(file), b.code) {
				t.Errorf("%s does not say what the page shows of it (error %v):\n%s", b.name, err, b.code)
			}
			continue
		}
		if !ran && b.name != "" {
			copied += strings.Count(b.code, "\n")
		}
	}
	const most = 30
	if copied > most {
		t.Errorf("%d lines are to be copied before the suite runs, more than %d", copied, most)
	}
	for name, got := range f.files {
		want, err := os.ReadFile(name)
		if err != nil || got != string(want) {
			t.Errorf("%s of the page differs from that of the example (%v)", name, err)
		}
	}
}

// A follower does what the page says.
type follower struct {
	t      *testing.T
	dir    string
	files  map[string]string
	output string // of the last command
}

func (f *follower) write(name, content string) {
	f.t.Helper()
	f.files[name] = content
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// run runs a command. What it shows is for shows to judge; only tests may fail.
func (f *follower) run(command string) {
	f.t.Helper()
	f.t.Logf("$ %s", command)
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	f.output = string(out)
	if err != nil && !strings.HasPrefix(command, "go test") {
		f.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	if strings.HasPrefix(command, "go mod init") {
		root, err := filepath.Abs("../..")
		if err != nil {
			f.t.Fatal(err)
		}
		f.run("go mod edit -replace github.com/anylock/lock=" + root)
	}
}

var changing = regexp.MustCompile(`[0-9.]+m?s\b|\.go:[0-9]+`)

// shows compares lines, whatever they say of times and lines of files. A line "…" stands for others.
func (f *follower) shows(text string) {
	f.t.Helper()
	same := func(s string) string { return changing.ReplaceAllString(strings.TrimRight(s, "\r\n"), "T") }
	shown := make(map[string]bool)
	for line := range strings.Lines(f.output) {
		shown[same(line)] = true
	}
	for line := range strings.Lines(text) {
		if line = same(line); line != "…" && !shown[line] {
			f.t.Fatalf("the page promises %q; it was\n%s", line, f.output)
		}
	}
}
