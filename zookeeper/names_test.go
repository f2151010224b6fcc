package zookeeper

import (
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{
		backend.NewOwner(), "o", "a-lock-0000000001", "_c_x-lock-", "_c_x-shared-", "-try-0000000001",
		"a b/c", "%", "a.b.c", "\x00\xff", "ö", strings.Repeat("o", 150),
	} {
		for _, m := range []mode{exclusive, exclusiveNoWait, shared} {
			prefix := nodePrefix(owner, m)
			for _, number := range []string{"0000000000", "2147483647", "-2147483648", "-000000001"} {
				p, ok := parsePlace(prefix + number)
				if !ok || p.prefix != prefix || p.owner() != owner || p.mode != m {
					t.Errorf("owner %q: %q is read as %+v, %v, owner %q", owner, prefix+number, p, ok, p.owner())
				}
			}
			if nodePrefix(owner, m) == prefix {
				t.Errorf("owner %q: two nodes would have one name", owner)
			}
		}
		_, got, ok := parseRecord(record(42, owner))
		if !ok || got != owner {
			t.Errorf("owner %q: its record is read as %q, %v", owner, got, ok)
		}
	}
	long := nodePrefix(strings.Repeat("\x00", backend.MaxOwnerLen), exclusive)
	if p, ok := parsePlace(long + "0000000000"); !ok || p.owner() != "" {
		t.Errorf("an owner that was cut is read as %q, %v", p.owner(), ok)
	}
	for _, name := range []string{"", "_c_", "x-lock-0000000000", "_c_x", "_c_x-lock-", "_c_x-lock-a",
		"_c_x-lock-99999999999",
		"_c_x-shared-", "_c_x-shared-a", "_c_x-lock-shared-", "x-shared-0000000000", "-shared-0000000000",
	} {
		if p, ok := parsePlace(name); ok {
			t.Errorf("%q is read as %+v", name, p)
		}
	}
	for _, key := range []string{".", "..", "a/b", "zookeeper", strings.Repeat("/", backend.MaxKeyLen)} {
		if name := keyNames.Encode(key); !validPath("/"+name) || strings.Contains(name, "/") || strings.HasPrefix(name, ".") {
			t.Errorf("key %q is kept as %q", key, name)
		}
	}
}
