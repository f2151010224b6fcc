package kubernetes_test

import (
	"bufio"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/adaptertest"
	"github.com/anylock/lock/internal/servers"
)

const page = "../../docs/adapters/kubernetes.md"

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// The program of the page leads on a real server until it is asked to end.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var program string
	for _, block := range goBlock.FindAllStringSubmatch(string(text), -1) {
		code := block[1]
		if formatted, err := format.Source([]byte(code)); err != nil || string(formatted) != code {
			t.Errorf("not as gofmt has it (%v):\n%s", err, code)
		}
		if strings.HasPrefix(code, "package main\n") {
			program += code
		}
	}
	adaptertest.Links(t, page)

	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, program)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), lock.URLEnv+"=redis://"+servers.Redis(t).Addr)
	var log strings.Builder
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "leading with token ") {
		t.Errorf("it prints %q", lines.Text())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(log.String(), "no longer a candidate: ") {
		t.Errorf("it ends with %v:\n%s", err, log.String())
	}
}
