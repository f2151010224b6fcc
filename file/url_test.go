//go:build linux || darwin

package file

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/storetest"
)

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"file:///var/lib/locks":         "/var/lib/locks",
		"file:///var/lib/locks/":        "/var/lib/locks",
		"file:/var/lib/locks":           "/var/lib/locks",
		"FILE:///a/../b":                "/b",
		"file://localhost/a":            "",
		"file:///with%20blank%3Fand%25": "/with blank?and%",
		"file:":                         "",
		"file://":                       "",
		"file:///":                      "",
		"file:///..":                    "",
		"file:locks":                    "",
		"file:./locks":                  "",
		"file://var/lib/locks":          "",
		"file://a,b/c":                  "",
		"file://user@/a":                "",
		"file:///a?lock_prefix=x":       "",
		"file:///a?mode=0700":           "",
		"file:///a%zz":                  "",
		"file:///a%00b":                 "",
		"file:///a b":                   "",
		"file:///a#b":                   "",
	} {
		if want == "" {
			if b, _, err := driver.Open(t.Context(), raw); !errors.Is(err, backend.ErrInvalid) {
				t.Errorf("%s: opened %v, %v; want ErrInvalid", raw, b, err)
			}
			continue
		}
		if u, err := storetest.Parse(raw); err != nil || filepath.Clean(u.Path) != want {
			t.Errorf("%s: %q, %v; want %q", raw, u.Path, err, want)
		}
	}
}
