package main

import "context"

// A guard is not needed: the job object ends the command with this process.
type guard struct{}

func startGuard(func(format string, args ...any)) (*guard, error) { return nil, nil }

func (*guard) dismiss() {}

func (*guard) context() context.Context { return context.Background() }
