package storetest

import (
	"io"
	"os"
	"testing"
)

// Example runs an example that needs a server, and checks its output. It redirects standard output, so t must not run
// in parallel.
func Example(t *testing.T, example func(), want string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stdout := os.Stdout
	func() {
		defer func() { os.Stdout = stdout; _ = w.Close() }()
		os.Stdout = w
		example() // the output must fit into the pipe
	}()
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("it prints %q (%v), want %q", got, err, want)
	}
}
