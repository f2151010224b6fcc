package main

import (
	"context"
	"fmt"
)

// startGuard starts the guard, unless --no-guard is set.
func (r *runner) startGuard() (*guard, error) {
	if r.noGuard {
		return nil, nil
	}
	g, err := startGuard(r.say)
	if err != nil {
		return nil, guardError(reason(err))
	}
	return g, nil
}

// guardFailure returns the exit error if the guard has ended, nil otherwise.
func guardFailure(g *guard) error {
	if err := context.Cause(g.context()); err != nil {
		return guardError(err)
	}
	return nil
}

func guardError(err error) error {
	return &exitError{code: exitSystem, err: fmt.Errorf(
		"no guard process, which kills the command if anylock is killed or stopped: %w (--no-guard runs without one)", err)}
}
