package storetest

import "go.uber.org/goleak"

// GoRedisDials makes goleak ignore a goroutine of go-redis. If a pool is closed while its server is away, this
// goroutine sleeps for up to a second before it checks whether the pool is closed.
func GoRedisDials() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}
