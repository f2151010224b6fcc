package certmagiclock_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/anylock/lock/internal/storetest"
)

const certmagicPath = "github.com/caddyserver/certmagic"

// ownLocks is added to a copy of certmagic, so that its FileStorage uses other locks.
const ownLocks = `package certmagic

import "context"

var Elsewhere func(*FileStorage) interface { Locker; TryLocker }

func (s *FileStorage) Lock(ctx context.Context, name string) error { return Elsewhere(s).Lock(ctx, name) }
func (s *FileStorage) TryLock(ctx context.Context, name string) (bool, error) { return Elsewhere(s).TryLock(ctx, name) }
func (s *FileStorage) Unlock(ctx context.Context, name string) error { return Elsewhere(s).Unlock(ctx, name) }
`

// ownTest is added to its tests: elsewhere is our Storage, one for each folder.
const ownTest = `package certmagic_test

import (
	"context"
	"os"
	"sync"

	"github.com/caddyserver/certmagic"

	"github.com/anylock/lock"
	certmagiclock "github.com/anylock/lock/adapters/certmagic"
	_ "github.com/anylock/lock/file"
	_ "github.com/anylock/lock/redis"
)

func init() {
	locks, err := lock.Open(context.Background(), os.Getenv(lock.URLEnv))
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	folders := make(map[string]*certmagiclock.Storage)
	certmagic.Elsewhere = func(s *certmagic.FileStorage) interface { certmagic.Locker; certmagic.TryLocker } {
		mu.Lock()
		defer mu.Unlock()
		if folders[s.Path] == nil {
			folders[s.Path] = certmagiclock.New(s, locks)
		}
		return folders[s.Path]
	}
}
`

var (
	fileLocks = regexp.MustCompile(`(?m)^func \(s \*FileStorage\) (Lock|TryLock|Unlock)\(`)
	// two ask public name servers, one takes port 8080
	elsewhere = "^(TestLookupNameserversOK|TestFindZoneByFqdn|TestTryListen)$"
)

// The tests of certmagic's own release pass when FileStorage uses our locks. They are run on a copy of it,
// which is thrown away.
func TestOwnTestsOfCertmagic(t *testing.T) {
	storetest.Long(t, "it compiles certmagic anew")
	var module struct{ Path, Version, Dir string }
	out, err := exec.Command("go", "list", "-m", "-json", certmagicPath).Output()
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, "certmagic")
	if err := os.CopyFS(copied, os.DirFS(module.Dir)); err != nil {
		t.Fatal(err)
	}
	storage := filepath.Join(copied, "filestorage.go")
	code, err := os.ReadFile(storage)
	if n := len(fileLocks.FindAll(code, -1)); n != 3 || err != nil {
		t.Fatalf("%d methods of FileStorage lock, %v; want 3", n, err)
	}
	if err := os.Remove(storage); err != nil { // modules are read-only
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		storage:                              string(fileLocks.ReplaceAll(code, []byte("func (s *FileStorage) own$1("))),
		filepath.Join(copied, "locks.go"):    ownLocks,
		filepath.Join(copied, "own_test.go"): ownTest,
		filepath.Join(dir, "go.mod"):         read(t, "go.mod") + fmt.Sprintf("\nreplace %s => %s\n", certmagicPath, copied),
		filepath.Join(dir, "go.sum"):         read(t, "go.sum"),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "own.test")
	build := exec.Command("go", "test", "-c", "-modfile", filepath.Join(dir, "go.mod"), "-o", binary, certmagicPath)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	onStores(t, func(t *testing.T, url string) {
		tests := exec.Command(binary, "-test.v", "-test.timeout=1m", "-test.skip", elsewhere)
		tests.Dir = t.TempDir() // they write into it
		if err := os.CopyFS(tests.Dir, os.DirFS(copied)); err != nil {
			t.Fatal(err)
		}
		tests.Env = append(os.Environ(), "ANYLOCK_URL="+url)
		out, err := tests.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		passed := strings.Count(string(out), "\n--- PASS: ")
		t.Logf("%d tests of certmagic %s passed", passed, module.Version)
		if !strings.Contains(string(out), "\n--- PASS: TestFileStorageWriteLock ") {
			t.Error("certmagic's test of locks did not run")
		}
	})
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "=> ../..", "=> "+root(t))
}

// root is the folder of the library.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
