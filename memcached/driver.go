package memcached

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

func init() {
	backend.Register(backend.Driver{
		Name:    "memcached",
		Schemes: []string{schemePlain, schemeTLS},
		Examples: []string{
			"memcached://localhost:11211?timeout=500ms",
			"memcacheds://localhost:11211?cacert=/etc/memcached/ca.pem",
		},
		Params: map[string]string{
			paramNamespace: "prefix of every item's name; default anylock",
		},
		Guarantees: guarantees(),
		Findings:   backend.Findings(rules),
		RoundTrips: backend.RoundTrips{Acquire: "2", Renew: "2", Release: "2"},
		Open:       func(ctx context.Context, rawURL string) (backend.Backend, error) { return open(ctx, rawURL) },
	})
}

// openTimeout bounds the look at the server on opening.
const openTimeout = 5 * time.Second

func open(ctx context.Context, rawURL string) (*Backend, error) {
	t, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if t.secure {
		config, err := t.files.Config()
		if err != nil {
			return nil, err
		}
		t.options.DialContext = oneServer((&tls.Dialer{Config: config}).DialContext)
	}
	b := newBackend(t.addr, t.options)
	if err := b.look(ctx); err != nil {
		_ = b.Close()
		return nil, err
	}
	return b, nil
}

// look makes sure that a memcached answers which can keep locks: it stores an item, compares and swaps it away, and draws a
// token, so that the counter is there.
func (b *Backend) look(ctx context.Context) error {
	_, _, err := ask(ctx, b, openTimeout, func(c *memcache.Client, _ bool) (none struct{}, err error) {
		item := &memcache.Item{Key: b.naming.scratch(backend.NewOwner()[:32]), Value: []byte("?"), Expiration: 10}
		if err := c.Add(item); err != nil {
			return none, err
		}
		got, err := c.Get(item.Key)
		if errors.Is(err, memcache.ErrCacheMiss) {
			return none, fmt.Errorf("%w: the server does not keep an item", backend.ErrUnsupported)
		}
		if err != nil {
			return none, err
		}
		if err := checkCAS(got); err != nil {
			return none, err
		}
		got.Expiration = gone
		if err := c.CompareAndSwap(got); err != nil {
			return none, err
		}
		_, err = b.nextToken(c)
		return none, err
	})
	return err
}
