package main

import "os"

// guardImage is the program that this process runs, even if the file at its path has been replaced.
var guardImage = "/proc/self/exe"

// guardFile returns the file to run as the guard.
func guardFile() (string, error) { return guardImage, nil }

// setProcessName sets the name that ps and killall show. The default is the name of the file.
func setProcessName(name string) {
	os.WriteFile("/proc/self/comm", []byte(name), 0) //nolint:errcheck // only a name
}
