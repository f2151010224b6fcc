package gooselock_test

import (
	"testing"

	"github.com/anylock/lock/internal/docpage"
)

func TestPage(t *testing.T) {
	docpage.Check(t, "../../docs/adapters/goose.md", "example_test.go")
}
