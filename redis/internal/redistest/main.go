package redistest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/storetest"
)

// Main runs a package's tests. stop ends the servers and clients that the tests share.
func Main(m *testing.M, stop func() error) {
	logging.Disable() // go-redis logs every outage, and tests cause outages on purpose
	process.Main(func(ctx context.Context, url string) (backend.Backend, error) {
		b, _, err := driver.Open(ctx, url)
		return b, err
	})
	storetest.VerifyTestMain(tests{m, stop}, storetest.GoRedisDials())
}

// tests is a package's tests, as goleak runs them. Run also calls stop, so that goleak then finds only leaks.
type tests struct {
	m    *testing.M
	stop func() error
}

func (t tests) Run() int {
	flag.Parse()
	raiseParallelism()
	code := t.m.Run()
	if err := t.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// raiseParallelism lets more tests run at once than there are processors, because they mostly wait. It respects the
// flag -parallel.
func raiseParallelism() {
	const parallel = "8"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", parallel)
	}
}
