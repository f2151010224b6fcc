package file_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance"
)

func TestResume(t *testing.T) {
	t.Parallel()
	url := "file://" + filepath.ToSlash(t.TempDir())
	result, err := conformance.ExecuteResume(t.Context(), conformance.Harness{Open: func(ctx context.Context) (backend.Backend, error) {
		b, _, err := driver.Open(ctx, url)
		return b, err
	}})
	if err != nil || result.Status != conformance.Pass {
		t.Errorf("%s %v\n%s", result.Status, err, result.Output)
	}
}
