package lock

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/anylock/lock/backend/driver"
)

// Config opens a Locker from a configuration file, so that you can change the store without changing code. Zero fields
// keep the defaults. It has tags for encoding/json and the usual YAML packages. Durations are strings like "30s".
type Config struct {
	URL        string   `json:"url" yaml:"url"`                                     // empty: $ANYLOCK_URL
	Prefix     string   `json:"prefix,omitempty" yaml:"prefix,omitempty"`           // WithPrefix
	OwnerLabel string   `json:"owner_label,omitempty" yaml:"owner_label,omitempty"` // WithOwnerLabel
	TokenBase  uint64   `json:"token_base,omitempty" yaml:"token_base,omitempty"`   // WithTokenBase
	TTL        Duration `json:"ttl,omitempty" yaml:"ttl,omitempty"`                 // WithTTL
	NoRenewal  bool     `json:"no_renewal,omitempty" yaml:"no_renewal,omitempty"`   // WithoutRenewal
	MaxHold    Duration `json:"max_hold,omitempty" yaml:"max_hold,omitempty"`       // WithMaxHold
	MinHold    Duration `json:"min_hold,omitempty" yaml:"min_hold,omitempty"`       // WithMinHold
	Wait       Duration `json:"wait,omitempty" yaml:"wait,omitempty"`               // WithWait; zero waits without limit
	Reentrant  bool     `json:"reentrant,omitempty" yaml:"reentrant,omitempty"`     // Reentrant
	Handoff    *int     `json:"handoff,omitempty" yaml:"handoff,omitempty"`         // WithHandoff
	// Require, as a text like "fifo,reach=network"
	Require Need `json:"require,omitzero" yaml:"require,omitempty"`
}

// Open opens the store that c names. opts override c's fields.
func (c Config) Open(ctx context.Context, opts ...Option) (*Locker, error) {
	fields := lockerOption(func(s *settings) {
		s.prefix = cmp.Or(c.Prefix, s.prefix)
		s.tokenBase = cmp.Or(c.TokenBase, s.tokenBase)
		s.ttl = cmp.Or(time.Duration(c.TTL), s.ttl)
		s.maxHold = time.Duration(c.MaxHold)
		s.minHold = time.Duration(c.MinHold)
		s.wait = cmp.Or(time.Duration(c.Wait), s.wait)
		s.noRenewal = c.NoRenewal
		s.reentrant = c.Reentrant
		s.require = append(s.require, c.Require)
		if c.OwnerLabel != "" {
			WithOwnerLabel(c.OwnerLabel).locker(s)
		}
		if c.Handoff != nil {
			s.handoff = *c.Handoff
		}
	})
	return Open(ctx, c.URL, append([]Option{fields}, opts...)...)
}

// String returns c as JSON, without the user, password and query of the URL.
func (c Config) String() string {
	type plain Config // without this method
	if c.URL != "" {
		c.URL = driver.Redact(c.URL)
	}
	text, _ := json.Marshal(plain(c)) // no field can make it fail
	return string(text)
}

// GoString returns String with the type's name, for %#v.
func (c Config) GoString() string { return "lock.Config" + c.String() }

// LogValue implements slog.LogValuer with String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// A Duration is a time.Duration that is written in configuration files as a string like "1m30s".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%w: duration %q, want a string like 30s", ErrInvalid, text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d Duration) String() string { return time.Duration(d).String() }
