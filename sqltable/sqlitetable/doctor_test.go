package sqlitetable

import (
	"path/filepath"
	"testing"

	"github.com/anylock/lock/internal/storetest"
)

// The settings are read together with the clock, which is the same as this test's.
func TestDoctor(t *testing.T) {
	_, b := opened(t, "file:"+filepath.Join(t.TempDir(), "data.db"))
	storetest.Finds(t, b, "journal-mode", "busy-timeout")
	if list := storetest.Examined(t, b); len(list) != 2 {
		t.Errorf("%+v, want two findings", list)
	}
}
