//go:build !linux

package servers

// memoryFolder returns "": only Linux has a folder in memory everywhere.
func memoryFolder() string { return "" }
