package zookeeper

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/backend/tlsurl"
)

const paramSessionTimeout = "session_timeout" // the name that clients in other languages use

func init() {
	driver.Register(driver.Driver{
		Name: "zookeeper",
		URLs: []driver.URLForm{{
			Scheme: "zookeeper", Secure: "zookeepers", Hosts: driver.ManyHosts, DefaultHost: "localhost",
			User: true, Path: driver.OptionalPath,
			Port: "2181", SecurePort: "2281", // the secureClientPort in ZooKeeper's documentation
		}},
		Params: []driver.Param{
			driver.TimeoutParam(defaultTimeout),
			{Name: paramSessionTimeout, Type: driver.Duration,
				Help: "longest session to request; default as long as the servers grant"},
		},
		Examples: []string{
			"zookeeper://z1:2181,z2:2181,z3:2181",
			"zookeeper://user:password@z1:2181,z2:2181,z3:2181/chroot?session_timeout=10s",
			"zookeepers://z1:2281,z2:2281,z3:2281?cacert=/etc/zookeeper/ca.pem&cert=/etc/zookeeper/client.pem" +
				"&key=/etc/zookeeper/client-key.pem",
		},
		Guarantees: defaultLimits().guarantees(),
		Findings:   append(kit.Findings(rules), kit.Findings(serverRules)...),
		RoundTrips: driver.RoundTrips{Acquire: "2", Renew: "1", Release: "1"},
		Open: func(ctx context.Context, u driver.URL) (backend.Backend, error) {
			o, err := fromURL(u)
			if err != nil {
				return nil, err
			}
			return New(ctx, u.Hosts, o)
		},
	})
}

// fromURL returns the options for a URL.
func fromURL(u driver.URL) (*Options, error) {
	if u.HasUser && u.User == "" {
		return nil, fmt.Errorf("%w: %s url: @ without a user before it", backend.ErrInvalid, u.Scheme)
	}
	config, err := tlsurl.Config(u)
	if err != nil {
		return nil, err
	}
	o := &Options{
		User: u.User, Password: u.Password, Chroot: strings.TrimSuffix(u.Path, "/"),
		SessionTimeout: u.Duration(paramSessionTimeout), Timeout: u.Duration(driver.ParamTimeout),
	}
	if config != nil {
		o.Dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
			return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, config)
		}
	}
	return o, nil
}
