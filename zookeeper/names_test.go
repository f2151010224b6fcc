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
		"a b/c", "%", "a.b.c", "\x00\xff", "ö", strings.Repeat("\x00", backend.MaxOwnerLen),
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
		if got := recordedToken(record(42, owner)); got != 42 {
			t.Errorf("owner %q: the token in its record is read as %d", owner, got)
		}
	}
	for _, foreign := range []string{"", "x 1", "18446744073709551616 o"} {
		if got := recordedToken([]byte(foreign)); got != 0 {
			t.Errorf("%q is read as token %d", foreign, got)
		}
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

// A batch of renewals fits into one request, even if its paths are as long as possible.
func TestLongestBatchFits(t *testing.T) {
	t.Parallel()
	key, owner := strings.Repeat("\x00", backend.MaxKeyLen), strings.Repeat("\x00", backend.MaxOwnerLen)
	b := &Backend{root: "/" + strings.Repeat("c", longestChroot-1) + allLocks}
	path := b.dir(key) + "/" + nodePrefix(owner, shared) + "-2147483648"
	const head, perPath = 32, 32 // bytes, more than the protocol needs
	if size := head + batchPaths*(len(path)+perPath); size > bufferSize {
		t.Errorf("%d paths of %d bytes take %d bytes, more than %d", batchPaths, len(path), size, bufferSize)
	}
}
