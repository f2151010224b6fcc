package redistest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/storetest"
)

// Main runs a package's tests. stop ends what they share.
func Main(m *testing.M, stop func() error) {
	logging.Disable() // go-redis logs every outage; here they are made on purpose
	process.Main(func(ctx context.Context, url string) (backend.Backend, error) {
		b, _, err := driver.Open(ctx, url)
		return b, err
	})
	goleak.VerifyTestMain(tests{m, stop}, storetest.GoRedisDials())
}

// tests run with what they share, which is gone before leaks are looked for.
type tests struct {
	m    *testing.M
	stop func() error
}

func (t tests) Run() int {
	flag.Parse()
	waitTogether()
	code := t.m.Run()
	if err := t.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// waitTogether lets more tests run at once than there are processors, unless -parallel says how many: they mostly wait.
func waitTogether() {
	const together = "8"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", together)
	}
}
