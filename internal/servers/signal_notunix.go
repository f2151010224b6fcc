//go:build !unix

package servers

import (
	"errors"
	"fmt"
)

func (p *process) signal(sig signal) error { return fmt.Errorf("%s: %w", sig, errors.ErrUnsupported) }
