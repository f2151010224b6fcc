package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

var etcdCurrentKind = kind{
	name:  "current etcd",
	find:  findEtcdCurrent,
	taken: etcdKind.taken,
}

var builtEtcd = sync.OnceValues(buildEtcd)

// findEtcdCurrent returns the program that the module etcdserver builds.
func findEtcdCurrent(t testing.TB) (string, bool) {
	t.Helper()
	path, err := builtEtcd()
	if err != nil {
		t.Logf("servers: no current etcd: %v", err)
	}
	return path, err == nil
}

// buildEtcd builds the server once per machine, release and version of Go. The program's name contains a hash of
// everything that it depends on. If two processes build at the same time, the program of the last one remains.
func buildEtcd() (path string, err error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", fmt.Errorf("this program does not know where its source is")
	}
	source := filepath.Join(filepath.Dir(file), "etcdserver")
	name, err := hashFiles(os.DirFS(source))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "anylock-test", "etcd")
	path = filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	building, err := os.MkdirTemp(dir, "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(building)
	program := filepath.Join(building, "etcd")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, ".")
	build.Dir = source
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(tail(string(out))))
	}
	return path, os.Rename(program, path)
}

// hashFiles returns a hash of a module's files and of the Go version that builds them.
func hashFiles(module fs.FS) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		b, err := fs.ReadFile(module, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, name, len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
