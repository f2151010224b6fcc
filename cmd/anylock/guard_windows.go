package main

import "context"

// A guard does nothing: the job object kills the command when this process ends.
type guard struct{}

func startGuard(func(format string, args ...any)) (*guard, error) { return nil, nil }

func (*guard) dismiss() {}

func (*guard) context() context.Context { return context.Background() }
