package redistest

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
)

// FailsInTime checks that open, whose servers hang, fails with ErrUnavailable soon after OpenTimeout.
func FailsInTime(t *testing.T, open func() (io.Closer, error)) {
	t.Helper()
	const most, attempts = endpoint.OpenTimeout + 2*time.Second, 3 // a busy machine is slow only now and then
	for attempt := 1; ; attempt++ {
		begun := time.Now()
		b, err := open()
		took := time.Since(begun)
		if err == nil {
			_ = b.Close()
		}
		if !errors.Is(err, backend.ErrUnavailable) {
			t.Fatalf("%v, want ErrUnavailable", err)
		}
		if took < most {
			return
		}
		if attempt == attempts {
			t.Fatalf("opening took %v, want less than %v", took, most)
		}
	}
}
