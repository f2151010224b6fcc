package storetest

import (
	"time"

	"go.uber.org/goleak"
)

// VerifyTestMain is goleak.VerifyTestMain, for clients whose goroutines end some time after Close. goleak alone waits
// for less than half a second, which a busy machine exceeds.
func VerifyTestMain(m goleak.TestingM, options ...goleak.Option) {
	goleak.VerifyTestMain(patientM{m, options}, options...)
}

// A patientM is a TestingM that returns when no goroutine is left, or some seconds after the tests.
type patientM struct {
	goleak.TestingM
	options []goleak.Option
}

func (m patientM) Run() int {
	const patience = 10 * time.Second
	code := m.TestingM.Run()
	for end := time.Now().Add(patience); code == 0 && time.Now().Before(end); {
		if goleak.Find(m.options...) == nil { // it waits for a while
			break
		}
	}
	return code
}

// GoRedisDials makes goleak ignore a goroutine of go-redis. If a pool is closed while its server is away, this
// goroutine sleeps for up to a second before it checks whether the pool is closed.
func GoRedisDials() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}
