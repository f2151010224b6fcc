// Package tlsurl creates a TLS configuration from the parameters of a store's URL: cacert, cert and key, which name PEM
// files.
package tlsurl

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

// Config returns the configuration for u, or nil if u's scheme does not use TLS. Without cacert, it trusts the
// authorities of this machine. The client's certificate is read again for each connection, because it may have been
// renewed. Errors match [backend.ErrInvalid].
func Config(u driver.URL) (*tls.Config, error) {
	if !u.Secure {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := u.Text(driver.ParamCA); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, invalid(u, "%s: %v", driver.ParamCA, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid(u, "%s: %q has no certificate in PEM", driver.ParamCA, file)
		}
	}
	cert, key := u.Text(driver.ParamCert), u.Text(driver.ParamKey)
	switch {
	case cert == "" && key == "":
		return c, nil
	case cert == "" || key == "":
		return nil, invalid(u, "parameters %s and %s go together", driver.ParamCert, driver.ParamKey)
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}
	if _, err := load(nil); err != nil {
		return nil, invalid(u, "%s and %s: %v", driver.ParamCert, driver.ParamKey, err)
	}
	c.GetClientCertificate = load
	return c, nil
}

func invalid(u driver.URL, format string, args ...any) error {
	return fmt.Errorf("%w: %s url: "+format, append([]any{backend.ErrInvalid, u.Scheme}, args...)...)
}
