//go:build !linux

package sqlite

import (
	"fmt"
	"runtime"

	"github.com/anylock/lock/backend"
)

func monotonic() int64 { return 0 }

func bootID() (string, error) {
	return "", fmt.Errorf("%w: the sqlite example knows no clock that all processes share on %s", backend.ErrUnsupported, runtime.GOOS)
}
