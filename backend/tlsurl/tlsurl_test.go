package tlsurl_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/tlsurl"
)

func parse(t *testing.T, raw string) driver.URL {
	t.Helper()
	u, err := driver.Driver{URLs: []driver.URLForm{{Scheme: "store", Secure: "stores", Hosts: driver.OneHost}}}.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestConfig(t *testing.T) {
	if c, err := tlsurl.Config(parse(t, "store://h")); c != nil || err != nil {
		t.Errorf("without TLS: %v, %v", c, err)
	}
	if c, err := tlsurl.Config(parse(t, "stores://h")); err != nil || c == nil || c.RootCAs != nil ||
		c.GetClientCertificate != nil {
		t.Errorf("with TLS: %+v, %v", c, err)
	}
}

// A file that is missing or not in PEM is ErrInvalid. So is a certificate without a key, or a key without a
// certificate.
func TestConfigRefusesFiles(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.pem")
	if err := os.WriteFile(text, []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"cacert=" + text, "cacert=" + text + "x", "cert=" + text + "&key=" + text, "cert=" + text + "x&key=" + text, "cert=" +
			text, "key=" + text,
	} {
		if _, err := tlsurl.Config(parse(t, "stores://h?"+query)); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v", query, err)
		}
	}
}
