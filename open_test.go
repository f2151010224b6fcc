package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/memory"
	_ "github.com/anylock/lock/memory"
)

func TestOpen(t *testing.T) {
	open := func(url string, opts ...lock.Option) (*lock.Locker, error) {
		l, err := lock.Open(t.Context(), url, opts...)
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return l, err
	}
	l, err := open("memory:?lock_prefix=a%2F")
	if err != nil {
		t.Fatal(err)
	}
	lease := acquire(t, l, "k")
	if lease.Key() != "a/k" {
		t.Errorf("key %q", lease.Key())
	}
	release(t, lease)
	t.Setenv(lock.URLEnv, "memory:")
	if _, err := open(""); err != nil {
		t.Error(err)
	}
	t.Setenv(lock.URLEnv, "")
	for _, url := range []string{"", "nosuch://u:secretpw@h/x", "memory:?lock_nosuch=1", "memory",
		"memory:?lock_prefix=%zz"} {
		_, err := open(url)
		wantErr(t, err, lock.ErrInvalid)
		if err != nil && strings.Contains(err.Error(), "secretpw") {
			t.Errorf("password in %q", err)
		}
	}
	for _, opt := range []lock.Option{
		lock.WithHandoff(-1), lock.WithHandoff(256), lock.WithTTL(0), lock.WithPrefix(strings.Repeat("p", 1024)),
		lock.Require(lock.Need{MaxLeases: -1}), lock.Require(lock.Need{MaxLate: -1}),
	} {
		_, err := open("memory:", opt)
		wantErr(t, err, lock.ErrInvalid)
	}
}

// The store "leaky" shows the URL in its errors.
func init() {
	driver.Register(driver.Driver{
		Name: "leaky", URLs: []driver.URLForm{{Scheme: "leaky", Hosts: driver.OneHost, User: true,
			Path: driver.OptionalPath}},
		OtherParams: "a library", Examples: []string{"leaky:"},
		Open: func(_ context.Context, u driver.URL) (backend.Backend, error) {
			return nil, errors.New("cannot dial " + u.Raw)
		},
	})
}

// Errors of Open do not show the URL's passwords, even if the store's error contains the URL.
func TestOpenErrorsHideThePassword(t *testing.T) {
	_, err := lock.Open(t.Context(), "leaky://user:hunter22@host/x?password=swordfish")
	if err == nil || strings.Contains(err.Error(), "hunter22") || strings.Contains(err.Error(), "swordfish") {
		t.Errorf("error %v", err)
	}
}

func TestRequire(t *testing.T) {
	_, err := lock.Open(t.Context(), "memory:",
		lock.Require(lock.Need{Reach: lock.ReachNetwork, Fencing: lock.FencingRestart, FIFO: true}))
	wantErr(t, err, lock.ErrUnsupported)
	wantErr(t, err, errors.ErrUnsupported)
	for _, part := range []string{"reach=network is required", "fencing=restart is required"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	if err != nil && strings.Contains(err.Error(), "fifo") {
		t.Errorf("%v complains of what is there", err)
	}
	l, err := lock.Open(t.Context(), "memory:",
		lock.Require(lock.Need{FIFO: true, Push: true, Linearizable: true, NoEarlyLoss: true,
			Fencing: lock.FencingProcess, Reach: lock.ReachProcess, MaxLate: time.Second, MinTTL: time.Second, MaxTTL: time.Hour,
			MaxSilence: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// The text of each field of a Need can be parsed again. A store with the weakest promises meets none of the fields, and
// the error names each.
func TestNeedText(t *testing.T) {
	var all lock.Need
	fields := reflect.ValueOf(&all).Elem()
	var texts []string
	for i := range fields.NumField() {
		var one lock.Need
		for _, f := range []reflect.Value{fields.Field(i), reflect.ValueOf(&one).Elem().Field(i)} {
			switch f.Kind() {
			case reflect.Bool:
				f.SetBool(true)
			default:
				f.SetInt(2)
			}
		}
		text := one.String()
		var read lock.Need
		if err := read.UnmarshalText([]byte(text)); err != nil || read != one || text == "" {
			t.Errorf("%s: %q, %+v, %v", fields.Type().Field(i).Name, text, read, err)
		}
		if _, err := lock.New(worst{memory.New()}, lock.Require(one)); !errors.Is(err, lock.ErrUnsupported) ||
			!strings.Contains(err.Error(), text+" is required, but ") {
			t.Errorf("%s: %v", text, err)
		}
		texts = append(texts, text)
	}
	if all.String() != strings.Join(texts, ",") {
		t.Errorf("%s, want %s", all, texts)
	}
	_, err := lock.New(worst{memory.New()}, lock.Require(all))
	for _, text := range texts {
		if !strings.Contains(err.Error(), text+" is required") {
			t.Errorf("%v does not name %s", err, text)
		}
	}
	var none lock.Need
	if err := none.UnmarshalText(nil); err != nil || none.String() != "" {
		t.Errorf("%v, %v", none, err)
	}
	for _, bad := range []string{",", "fifo,", "nosuch", "fifo=1", "fencing", "fencing=", "fencing=x", "reach=x",
		"max-late=x",
		"max-late=-1s", "max-late=0s", "min-ttl", "max-ttl=0x", "max-leases=-1", "max-leases=0", "max-leases=x"} {
		was := lock.Need{FIFO: true}
		wantErr(t, was.UnmarshalText([]byte(bad)), lock.ErrInvalid)
		if was != (lock.Need{FIFO: true}) {
			t.Errorf("%q has changed the Need to %v", bad, was)
		}
	}
}

// worst is a store with the weakest promises.
type worst struct{ *memory.Backend }

func (worst) Guarantees() backend.Guarantees {
	return backend.Guarantees{MinTTL: time.Second, MaxTTL: 1, MaxSilence: 1, MaxLate: time.Second, MaxLeases: 1,
		EarlyLoss: "always"}
}

func TestConfig(t *testing.T) {
	const (
		asJSON = `{"url": "memory:", "prefix": "p/", "ttl": "1m30s", "max_hold": "1h", "min_hold": "1s", "wait": "5s",
			"no_renewal": true, "reentrant": true, "handoff": 0, "require": "fifo, fencing=process"}`
	)
	var c lock.Config
	if err := json.Unmarshal([]byte(asJSON), &c); err != nil {
		t.Fatal(err)
	}
	if c.TTL != lock.Duration(90*time.Second) || c.Handoff == nil || *c.Handoff != 0 ||
		c.Require != (lock.Need{FIFO: true, Fencing: lock.FencingProcess}) {
		t.Errorf("%+v", c)
	}
	l, err := c.Open(t.Context(), lock.WithPrefix("q/"), lock.WithMinHold(time.Nanosecond))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lease := acquire(t, l, "k")
	if lease.Key() != "q/k" {
		t.Errorf("key %q: options do not win over the file's", lease.Key())
	}
	if left := time.Until(lease.Deadline()); left < time.Minute || left > 90*time.Second {
		t.Errorf("%v left", left)
	}
	if _, err := l.Acquire(lease.Context(t.Context()), "k"); err != nil {
		t.Error(err)
	}
	text, _ := json.Marshal(c)
	if !strings.Contains(string(text), `"ttl":"1m30s"`) ||
		!strings.Contains(string(text), `"require":"fifo,fencing=process"`) {
		t.Errorf("%s", text)
	}
	c = lock.Config{URL: "memory:", Require: lock.Need{Reach: lock.ReachNetwork}}
	_, err = c.Open(t.Context())
	wantErr(t, err, lock.ErrUnsupported)
	for _, bad := range []string{`{"ttl": "soon"}`, `{"require": "nosuch"}`} {
		wantErr(t, json.Unmarshal([]byte(bad), &c), lock.ErrInvalid)
	}
}

func TestErrorText(t *testing.T) {
	err := &lock.Error{Op: "acquire", Backend: "redis", Key: "a\n" + strings.Repeat("k", 100), Err: lock.ErrHeld}
	if s := err.Error(); strings.Contains(s, "\n") || len(s) > 160 || !strings.HasPrefix(s, `lock: acquire "a\nkkk`) {
		t.Errorf("%s", s)
	}
}

// Requiring an unknown level or a negative duration is ErrInvalid.
func TestRequireOfAnUnknownValue(t *testing.T) {
	for _, r := range []lock.Need{{Fencing: -1}, {Fencing: 99}, {Reach: -1}, {Reach: 99}, {MinTTL: -1}} {
		if _, err := lock.New(memory.New(), lock.Require(r)); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", r, err)
		}
	}
}

// bounded is a store with limits: TTLs of at most a minute, leases that end after a second without contact with the
// client, and at most ten leases at once.
type bounded struct{ *memory.Backend }

func (b bounded) Guarantees() backend.Guarantees {
	g := b.Backend.Guarantees()
	g.MaxTTL, g.MaxSilence, g.MaxLeases = time.Minute, time.Second, 10
	return g
}

func TestRequireWhatIsBounded(t *testing.T) {
	b := bounded{memory.New()}
	defer b.Close()
	_, err := lock.New(b, lock.Require(lock.Need{MaxTTL: time.Hour}))
	if !errors.Is(err, lock.ErrUnsupported) || !strings.Contains(err.Error(), "max-ttl=1h0m0s is required, but") {
		t.Errorf("an hour: %v", err)
	}
	_, err = lock.New(b, lock.Require(lock.Need{MaxSilence: time.Minute}))
	if !errors.Is(err, lock.ErrUnsupported) || !strings.Contains(err.Error(),
		"max-silence=1m0s is required, but max-silence is 1s") {
		t.Errorf("a minute of silence: %v", err)
	}
	_, err = lock.New(b, lock.Require(lock.Need{MaxLeases: 11}))
	if !errors.Is(err, lock.ErrUnsupported) || !strings.Contains(err.Error(),
		"max-leases=11 is required, but at most 10") {
		t.Errorf("eleven leases: %v", err)
	}
	if _, err := lock.New(b, lock.Require(lock.Need{MaxTTL: time.Minute, MaxSilence: time.Second,
		MaxLeases: 10})); err != nil {
		t.Errorf("what there is: %v", err)
	}
}

// A store that names no longest TTL grants backend.MaxTTL, and nothing longer.
func TestRequireOfATTLThatNoStoreGrants(t *testing.T) {
	b := memory.New()
	defer b.Close()
	_, err := lock.New(b, lock.Require(lock.Need{MaxTTL: backend.MaxTTL + 1}))
	if !errors.Is(err, lock.ErrUnsupported) || !strings.Contains(err.Error(), "max-ttl is "+backend.MaxTTL.String()) {
		t.Errorf("more than the longest TTL: %v, want ErrUnsupported", err)
	}
	if _, err := lock.New(b, lock.Require(lock.Need{MaxTTL: backend.MaxTTL})); err != nil {
		t.Errorf("the longest TTL: %v", err)
	}
}

// A TTL that the store does not grant is refused when the Locker is opened, because every Acquire would fail.
func TestTTLThatTheStoreRefuses(t *testing.T) {
	b := bounded{memory.New()}
	defer b.Close()
	if _, err := lock.New(b, lock.WithTTL(time.Hour)); !errors.Is(err, lock.ErrInvalid) ||
		!strings.Contains(err.Error(), "1m0s") {
		t.Errorf("an hour: %v, want ErrInvalid that names the longest", err)
	}
	if _, err := lock.New(b, lock.WithTTL(time.Minute)); err != nil {
		t.Errorf("a minute: %v", err)
	}
}

// A minimum hold that is longer than the store grants is refused before the key is acquired, because Release could not
// request it.
func TestMinHoldThatTheStoreRefuses(t *testing.T) {
	b := bounded{memory.New()}
	if _, err := lock.New(b, lock.WithMinHold(time.Hour)); !errors.Is(err, lock.ErrInvalid) ||
		!strings.Contains(err.Error(), "min hold 1h0m0s") ||
		!strings.Contains(err.Error(), "1m0s") {
		t.Errorf("an hour: %v, want ErrInvalid that names the longest", err)
	}
	l := locker(t, b, lock.WithMinHold(time.Minute))
	for _, acquire := range []func(context.Context, string, ...lock.AcquireOption) (*lock.Lease, error){l.Acquire,
		l.TryAcquire} {
		if _, err := acquire(t.Context(), "k", lock.WithMinHold(time.Minute+1)); !errors.Is(err, lock.ErrInvalid) {
			t.Fatalf("more than a minute: %v, want ErrInvalid", err)
		}
	}
	lease := acquire(t, l, "k")
	release(t, lease)
	busy(t, l, "k")
}
