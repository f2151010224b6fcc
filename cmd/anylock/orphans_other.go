//go:build !linux

package main

// reapOrphans does nothing: only in a Linux container can any program be process 1.
func reapOrphans() (stop func()) { return func() {} }
