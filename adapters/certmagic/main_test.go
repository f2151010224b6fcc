package certmagiclock_test

import (
	"testing"

	"github.com/anylock/lock/internal/adaptertest"
)

func TestMain(m *testing.M) {
	adaptertest.Main(m)
}

func TestPage(t *testing.T) {
	adaptertest.Page(t, "../../docs/adapters/certmagic.md", "example_test.go")
}

func onStores(t *testing.T, test func(t *testing.T, url string)) {
	adaptertest.OnStores(t, test, "redis", "file")
}
