//go:build !(linux && amd64)

package skew

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Set is possible on linux/amd64 only: see there.
func Set(int, time.Duration) error {
	return fmt.Errorf("%w: a wrong clock on %s/%s", errors.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

// Possible reports that it is not.
func Possible() bool { return false }
