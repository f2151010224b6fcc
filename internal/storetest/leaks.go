package storetest

import "go.uber.org/goleak"

// GoRedisDials leaves out of the search for leaks what a pool of go-redis that was closed while its server was away
// leaves for up to a second: a goroutine that sleeps before it looks whether the pool is still there.
func GoRedisDials() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}
