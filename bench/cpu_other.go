//go:build !unix

package bench

import "time"

// processCPU returns 0, because the processor time is unknown here.
func processCPU() time.Duration { return 0 }
