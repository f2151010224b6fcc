//go:build !(linux && amd64)

package skew

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Set returns an error, because it is implemented only on linux/amd64.
func Set(int, time.Duration) error {
	return fmt.Errorf("%w: a wrong clock on %s/%s", errors.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

// Possible returns false.
func Possible() bool { return false }
