//go:build !race

package conformance_test

// raceDetector reports whether the race detector is on, which multiplies the processor time of a test by six.
const raceDetector = false
