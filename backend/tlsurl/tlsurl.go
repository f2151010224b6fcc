// Package tlsurl makes a TLS configuration of the parameters of a store's URL: cacert, cert and key, which name files
// in PEM.
package tlsurl

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/anylock/lock/backend"
)

// Config returns the configuration for u, or nil if u's scheme is one without TLS. Without cacert, the authorities of
// this machine are trusted. The client's certificate is read again for each connection, because it may have been
// renewed. Errors match [backend.ErrInvalid].
func Config(u backend.URL) (*tls.Config, error) {
	if !u.Secure {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := u.Text(backend.ParamCA); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, invalid(u, "%s: %v", backend.ParamCA, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid(u, "%s: %q has no certificate in PEM", backend.ParamCA, file)
		}
	}
	cert, key := u.Text(backend.ParamCert), u.Text(backend.ParamKey)
	switch {
	case cert == "" && key == "":
		return c, nil
	case cert == "" || key == "":
		return nil, invalid(u, "parameters %s and %s go together", backend.ParamCert, backend.ParamKey)
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}
	if _, err := load(); err != nil {
		return nil, invalid(u, "%s and %s: %v", backend.ParamCert, backend.ParamKey, err)
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return c, nil
}

func invalid(u backend.URL, format string, args ...any) error {
	return fmt.Errorf("%w: %s url: "+format, append([]any{backend.ErrInvalid, u.Scheme}, args...)...)
}
