package bench

import (
	"testing"

	"github.com/anylock/lock/backend/driver"
)

// A store that is reached by a Unix socket has no host and port. Its server then has no version, and nothing panics.
func TestServerOfSocket(t *testing.T) {
	t.Parallel()
	const raw = "postgres://u@%2Fnowhere/db"
	u, err := driver.SplitURL(raw)
	if err != nil {
		t.Fatal(err)
	}
	if version := serverOf(t.Context(), raw, u); version != "" {
		t.Errorf("version %q", version)
	}
}
