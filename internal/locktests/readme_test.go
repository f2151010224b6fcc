package locktests

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/servers"
)

var (
	readmeProgram = regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```$")
	readmeURL     = regexp.MustCompile(`lock\.Open\(ctx, "[^"]*"`)
	readmeStore   = regexp.MustCompile(`(?m)^\t_ "github.com/anylock/lock/.*\n`)
	readmeKey     = regexp.MustCompile(`"invoice/42"`)
)

// readmePrograms builds those programs of the README and of "Using the library" that use a URL. The URL comes from the
// environment, so they run on any store. own is the source of the program that creates its own client.
func readmePrograms(t *testing.T) (programs []string, own string) {
	t.Helper()
	var pages []byte
	for _, page := range []string{"README.md", "docs/using-the-library.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, text...)
	}
	const stores = `package main

import (
	_ "github.com/anylock/lock/etcd"
	_ "github.com/anylock/lock/file"
	_ "github.com/anylock/lock/memcached"
	_ "github.com/anylock/lock/postgres"
	_ "github.com/anylock/lock/redis"
	_ "github.com/anylock/lock/redis/redlock"
	_ "github.com/anylock/lock/zookeeper"
)
`
	for _, block := range readmeProgram.FindAllStringSubmatch(string(pages), -1) {
		code := block[1]
		if !readmeURL.MatchString(code) {
			own += code
			continue
		}
		for _, part := range []*regexp.Regexp{readmeURL, readmeStore, readmeKey} {
			if len(part.FindAllString(code, -1)) != 1 {
				t.Fatalf("a program does not hold %v once:\n%s", part, code)
			}
		}
		code = readmeURL.ReplaceAllString(code, `lock.Open(ctx, ""`)
		code = readmeStore.ReplaceAllString(code, "")
		programs = append(programs, build(t, map[string]string{"main.go": code, "stores.go": stores}))
	}
	if len(programs) != 2 {
		t.Fatalf("%d programs take a URL", len(programs))
	}
	return programs, own
}

// build compiles the program that consists of files, and returns its path.
func build(t *testing.T, files map[string]string) (program string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "program")
	args := []string{"build", "-ldflags=-s -w", "-o", program}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, files["main.go"])
	}
	return program
}

// The program that creates its own client works on a real server.
func TestReadmeProgramWithClient(t *testing.T) {
	t.Parallel()
	_, own := readmePrograms(t)
	s := servers.Redis(t)
	program := build(t, map[string]string{"main.go": strings.Replace(own, "localhost:6379", s.Addr, 1)})
	out, err := exec.Command(program).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "alone, with token ") {
		t.Errorf("%v, %q", err, out)
	}
}

// On every store, the programs behave as described, on a free key and on a busy one: one program waits for a busy key,
// and the other skips it.
func TestReadmeProgramsOnStores(t *testing.T) {
	programs, _ := readmePrograms(t)
	const waits, skips = 0, 1 // programs
	onStores(t, func(t *testing.T, s sharedStore) {
		t.Parallel()
		url, _ := s.start(t)
		run := func(program int) (wait func(want string)) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			cmd := exec.CommandContext(ctx, programs[program])
			cmd.Env = append(os.Environ(), lock.URLEnv+"="+url)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return func(want string) {
				t.Helper()
				defer cancel()
				if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), want) {
					t.Errorf("program %d: %v, %q; want %q", program+1, err, out.String(), want)
				}
			}
		}
		run(waits)("alone, with token")
		run(skips)("charged")
		lease, err := open(t, url).Acquire(t.Context(), "invoice/42")
		if err != nil {
			t.Fatal(err)
		}
		run(skips)("busy")
		waiting := run(waits)
		run(skips)("busy")
		release(t, lease)
		waiting("alone, with token")
	})
}
