package certmagiclock_test

import (
	"testing"

	"github.com/anylock/lock/internal/docpage"
)

func TestPage(t *testing.T) {
	docpage.Check(t, "../../docs/adapters/certmagic.md", "example_test.go")
}
