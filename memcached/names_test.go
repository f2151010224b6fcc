package memcached

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
)

// Keys of any bytes, and of up to 1024 bytes, never share an item, although item names are printable and at most 250
// bytes long.
func TestKeysDoNotAlias(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr)
	long := strings.Repeat("x", 250)
	keys := []string{
		"a", "A", "a b", "a+b", "a%20b", "a\tb", "a\r\nb", "a\x00b", "a\x7fb", "a:b", "a!b", "ä", "\xff\xfe", " ", "\r\n",
		"token", "!token",
		long[:240], long[:241], long[:242], long[:243], long[:249], long, long + "x", long + "y", long +
			strings.Repeat("y", 773),
		strings.Repeat("\x00", 1024), strings.Repeat("\x00", 1023), strings.Repeat(" ", 251), strings.Repeat("\x01", 1024),
		long + "\x00", long + " ", "noreply", "0",
	}
	names := make(map[string]string)
	leases := make(map[string]backend.Lease)
	for _, key := range keys {
		name := lockName(key)
		if other, taken := names[name]; taken {
			t.Fatalf("keys %q and %q share the name %s", key, other, name)
		}
		if len(name) > maxNameLen || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Errorf("key %q: bad name %q", key, name)
		}
		names[name] = key
		leases[key] = acquire(t, b, req(key, time.Minute))
	}
	for _, key := range keys {
		isHeld(t, b, key)
		if h, err := b.Inspect(context.Background(), key); err != nil || h.Owner != leases[key].(*kit.Life).Owner() {
			t.Errorf("inspect of %q: %+v, %v", key, h, err)
		}
		if err := leases[key].Renew(context.Background(), time.Minute); err != nil {
			t.Errorf("renew of %q: %v", key, err)
		}
		release(t, leases[key])
	}
}

func TestNamesDoNotAlias(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for what, name := range map[string]string{
		"lock k": lockName("k"), "lock !token": lockName("!token"), "lock b:k": lockName("b:k"),
		"long":    lockName(strings.Repeat("k", 1024)),
		"counter": counterName, "scratch": scratchName("0123456789abcdef0123456789abcdef"),
	} {
		if other, taken := seen[name]; taken {
			t.Errorf("%s has the name of %s", what, other)
		}
		if len(name) > maxNameLen {
			t.Errorf("%s: %d bytes", what, len(name))
		}
		seen[name] = what
	}
}

// If the item with a lock's name is foreign, or belongs to another key, operations fail with errForeign and do not
// change it.
func TestForeignItem(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr)
	c := raw(t, s.Addr)
	for _, value := range []string{"", "1", string(record{owner: "o", key: "twin"}.encode())} {
		if err := c.Set(&memcache.Item{Key: lockName("k"), Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
		for _, r := range []backend.Request{req("k", time.Minute), waiting("k", time.Minute)} {
			if _, err := b.Acquire(context.Background(), r); !errors.Is(err, errForeign) {
				t.Errorf("acquire (wait %v) with an item %q: %v", r.Wait, value, err)
			}
		}
		if _, err := b.Inspect(context.Background(), "k"); !errors.Is(err, errForeign) {
			t.Errorf("inspect with an item %q: %v", value, err)
		}
		if item, err := c.Get(lockName("k")); err != nil || string(item.Value) != value {
			t.Errorf("the item %q is %v, %v by now", value, item, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("owner@host:1", "key", uint64(1), []byte("anylock 2 0 1 3 o key 7 1 o 8 1 x"))
	f.Add("o o", "k k", uint64(1)<<54, []byte("anylock 2 5 99999 3 o key"))
	f.Add("\x00", " ", uint64(0), []byte("anylock 2 5 0 3  key"))
	f.Fuzz(func(t *testing.T, owner, key string, token uint64, junk []byte) {
		if got, err := decode(junk, key); err == nil {
			if again, err := decode(got.encode(), key); err != nil || again != got || got.owner == "" {
				t.Errorf("%q reads as %+v, and that as %+v, %v", junk, got, again, err)
			}
		}
		if owner == "" || len(owner) > backend.MaxOwnerLen || key == "" {
			return
		}
		r := record{token: token, owner: owner, key: key}
		if got, err := decode(r.encode(), key); err != nil || got != r {
			t.Errorf("%+v reads as %+v, %v", r, got, err)
		}
		other := record{token: token ^ 1, owner: owner + "x"}
		stored := record{owner: owner, key: key}.encode()
		stored = slices.Concat(stored, other.encodeToken(), r.encodeToken(), other.encodeToken())
		if got, err := decode(stored, key); err != nil || got != r {
			t.Errorf("%+v with a token appended reads as %+v, %v", r, got, err)
		}
		late := record{token: token / 2, owner: owner}
		if got, err := decode(slices.Concat(r.encode(), late.encodeToken()), key); err != nil || got != r {
			t.Errorf("%+v with an earlier token appended reads as %+v, %v", r, got, err)
		}
		if _, err := decode(r.encode(), key+"x"); err == nil {
			t.Error("a record of another key is taken")
		}
	})
}
