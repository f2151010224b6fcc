package certmagiclock_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/anylock/lock"
	certmagiclock "github.com/anylock/lock/adapters/certmagic"
	"github.com/anylock/lock/internal/adaptertest"
	"github.com/anylock/lock/internal/storetest"
)

const name = "issue_cert_example.com" // of a lock, as certmagic calls it

// An authority issues certificates, and counts them.
type authority struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	issued atomic.Int64
	second chan struct{} // closed when it is asked a second time
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t: t, key: key, second: make(chan struct{})}
}

func (*authority) IssuerKey() string { return "test" }

// Issue takes long enough for another instance to request the same certificate, if it may.
func (a *authority) Issue(_ context.Context, r *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if a.issued.Add(1) == 2 {
		close(a.second)
	}
	select {
	case <-a.second:
	case <-time.After(storetest.Soon):
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: r.DNSNames, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, r.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// obtain lets two instances obtain a certificate at once and load it, and returns how many were issued.
func obtain(t *testing.T, storages ...certmagic.Storage) (issued int64, err error) {
	t.Helper()
	ca := newAuthority(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, s := range storages {
		var config *certmagic.Config
		cache := certmagic.NewCache(certmagic.CacheOptions{
			Logger:           zap.NewNop(),
			GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		})
		t.Cleanup(cache.Stop)
		config = certmagic.New(cache, certmagic.Config{Storage: s, Issuers: []certmagic.Issuer{ca}, Logger: zap.NewNop()})
		wg.Go(func() {
			obtained := config.ObtainCertAsync(t.Context(), "example.com") // it also calls RenewLockLease
			_, loaded := config.CacheManagedCertificate(t.Context(), "example.com")
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, obtained, loaded)
		})
	}
	wg.Wait()
	return ca.issued.Load(), err
}

// Of two instances with a client each, one obtains the certificate, and the other finds it.
func TestOneObtains(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		data := &certmagic.FileStorage{Path: t.TempDir()}
		n, err := obtain(t, certmagiclock.New(data, adaptertest.Open(t, url)),
			certmagiclock.New(data, adaptertest.Open(t, url)))
		if n != 1 || err != nil {
			t.Errorf("%d certificates were issued, %v", n, err)
		}
	})
}

// Without locks both obtain it: TestOneObtains would fail.
func TestWithoutLocksBothObtain(t *testing.T) {
	t.Parallel()
	data := &certmagic.FileStorage{Path: t.TempDir()}
	n, err := obtain(t, unlocked{data}, unlocked{data})
	if n != 2 {
		t.Errorf("%d certificates were issued, so that TestOneObtains shows nothing", n)
	}
	t.Log(err) // the key of one may be stored beside the certificate of the other
}

type unlocked struct{ certmagic.Storage }

func (unlocked) Lock(context.Context, string) error   { return nil }
func (unlocked) Unlock(context.Context, string) error { return nil }

// breaks ends the lease on name, which somebody else then has until release.
func breaks(t *testing.T, others *lock.Locker) (release func()) {
	t.Helper()
	h, err := others.Ops().Inspect(t.Context(), name)
	if err != nil || h.Owner == "" {
		t.Fatalf("%+v, %v", h, err)
	}
	if err := others.Ops().Break(t.Context(), name, h.Owner); err != nil {
		t.Fatal(err)
	}
	l, err := others.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := l.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// A lost lock is reported, is acquired again when it is free, and never belongs to two.
func TestLossAndRenewal(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		others := adaptertest.Open(t, url)
		s := certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()},
			adaptertest.Open(t, url, lock.WithTTL(5*time.Second)))
		want := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		renew := func() error { return s.RenewLockLease(t.Context(), name, time.Hour) }
		reports := func(want error) {
			t.Helper()
			storetest.Until(t, storetest.Soon, "the loss to be noticed", func() bool { return errors.Is(renew(), want) })
		}
		want("renewal of what is not locked", renew(), lock.ErrInvalid)
		want("unlock of what is not locked", s.Unlock(t.Context(), name), lock.ErrInvalid)

		want("lock", s.Lock(t.Context(), name), nil)
		want("renewal", renew(), nil)
		release := breaks(t, others)
		reports(lock.ErrHeld)
		if ok, err := s.TryLock(t.Context(), name); ok || err != nil {
			t.Errorf("another holds it, and TryLock says %v, %v", ok, err)
		}
		release()
		want("renewal of what was lost and is free", renew(), nil)
		want("renewal of what was taken again", renew(), nil)
		_, err := others.TryAcquire(t.Context(), name)
		want("another's attempt", err, lock.ErrHeld)

		// A second holder in the same process waits for the first, which has lost its lease.
		release = breaks(t, others)
		reports(lock.ErrHeld)
		release()
		if ok, err := s.TryLock(t.Context(), name); ok || err != nil {
			t.Fatalf("the first holder goes on, and TryLock says %v, %v", ok, err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		err = s.Lock(ended, name)
		want("a lock that may not wait", err, lock.ErrHeld)
		want("a lock that may not wait", err, context.Canceled)
		second := make(chan error, 1)
		go func() { second <- s.Lock(t.Context(), name) }()
		select {
		case err := <-second:
			t.Fatalf("the second lock, before the unlock of the first: %v", err)
		case <-time.After(time.Second):
		}
		want("unlock by the first holder", s.Unlock(t.Context(), name), lock.ErrLost)
		want("the second lock", <-second, nil)
		_, err = others.TryAcquire(t.Context(), name)
		want("another's attempt", err, lock.ErrHeld)
		want("unlock by the second holder", s.Unlock(t.Context(), name), nil)
		if ok, err := s.TryLock(t.Context(), name); !ok || err != nil {
			t.Errorf("nobody holds it, and TryLock says %v, %v", ok, err)
		}
		want("unlock after TryLock", s.Unlock(t.Context(), name), nil)
	})
}

// A secret is a data store that is not to be printed as it is.
type secret struct {
	certmagic.Storage
	Password string
}

type redacted struct{ secret }

func (redacted) String() string { return "redacted" }

// certmagic logs its Storage.
func TestSecretsAreNotLogged(t *testing.T) {
	for _, data := range []certmagic.Storage{secret{Password: "hunter2"}, redacted{secret{Password: "hunter2"}}} {
		var log bytes.Buffer
		core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log),
			zap.InfoLevel)
		zap.New(core).Info("cleaning", zap.Any("storage", certmagiclock.New(data, nil)))
		if !strings.Contains(log.String(), "cleaning") || strings.Contains(log.String(), "hunter2") {
			t.Errorf("%T: %s", data, log.String())
		}
	}
}
