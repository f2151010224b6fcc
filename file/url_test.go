//go:build linux || darwin

package file

import (
	"errors"
	"testing"

	"github.com/anylock/lock/backend"
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
		dir := ""
		u, err := storetest.Parse(raw)
		if err == nil {
			dir, err = directoryOf(u)
		}
		if dir != want || (want == "") != errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %q, %v; want %q", raw, dir, err, want)
		}
	}
}
