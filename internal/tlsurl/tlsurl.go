// Package tlsurl reads what URLs of stores say about TLS: which authority to trust, and the client's own certificate. Their names are
// the same for all stores.
package tlsurl

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"

	"github.com/anylock/lock/backend"
)

// The parameters, which name files in PEM.
const (
	CA   = "cacert"
	Cert = "cert"
	Key  = "key"
)

// Files are the values of the parameters, empty where they were not given.
type Files struct{ CA, Cert, Key string }

// Take removes the parameters from query. They are refused unless the URL's scheme is secure, the one with TLS. An error says what is
// wrong with the URL, and is for the caller to wrap.
func Take(query url.Values, scheme, secure string) (Files, error) {
	var f Files
	for name, value := range map[string]*string{CA: &f.CA, Cert: &f.Cert, Key: &f.Key} {
		list, given := query[name]
		if !given {
			continue
		}
		delete(query, name)
		switch {
		case len(list) > 1:
			return f, fmt.Errorf("parameter %q is given twice", name)
		case list[0] == "":
			return f, fmt.Errorf("parameter %q is empty", name)
		case scheme != secure:
			return f, fmt.Errorf("parameter %q is for %s://", name, secure)
		}
		*value = list[0]
	}
	if (f.Cert == "") != (f.Key == "") {
		return f, fmt.Errorf("parameters %s and %s go together", Cert, Key)
	}
	return f, nil
}

// Config reads the files. Without a CA, the authorities of this machine are trusted. The client's certificate is read again for each
// connection, because it may have been renewed. Errors match [backend.ErrInvalid].
func (f Files) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, invalid("%s: %v", CA, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("%s: %q holds no certificate in PEM", CA, f.CA)
		}
	}
	if f.Cert != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
			return &pair, err
		}
		if _, err := load(); err != nil {
			return nil, invalid("%s and %s: %v", Cert, Key, err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return c, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: url: "+format, append([]any{backend.ErrInvalid}, args...)...)
}
