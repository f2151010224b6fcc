//go:build !(linux && amd64)

package process

import (
	"fmt"
	"os/exec"
	"runtime"
	"time"

	"github.com/anylock/lock/backend"
)

func startSkewed(*exec.Cmd, time.Duration) error {
	return fmt.Errorf("%w: no process with a wrong clock on %s/%s", backend.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}
