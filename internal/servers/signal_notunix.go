//go:build !unix

package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

const sigKill signal = "SIGKILL"

func (p *process) signal(sig signal) error { return fmt.Errorf("%s: %w", sig, errors.ErrUnsupported) }

func signalPids([]int, signal) error { return nil }

func (id *identity) apply(*exec.Cmd) {}

func ownedBy(_ *identity, path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
