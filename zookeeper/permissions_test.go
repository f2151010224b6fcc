package zookeeper

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/internal/storetest"
)

// The user and the chroot that docs/stores/zookeeper.md creates suffice for every operation, and strangers have no
// access. The test runs the page's zkCli.sh commands through a client, below its own chroot.
func TestPermissionsOfThePage(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	if _, err := c.Create(s.chroot, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	var user, chroot string
	for _, line := range storetest.Permissions(t, "zookeeper") {
		words := strings.Fields(line)
		var err error
		switch {
		case len(words) == 3 && words[0] == "addauth" && words[1] == "digest":
			user = words[2]
			err = c.AddAuth(words[1], []byte(user))
		case len(words) == 4 && words[0] == "create" && words[2] == `""` && words[3] == "auth::cdrwa":
			chroot = s.chroot + words[1]
			_, err = c.Create(chroot, nil, 0, zk.AuthACL(zk.PermAll))
		default:
			t.Fatalf("unknown: %q", line)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	storetest.UseAll(t, opened(t, "zookeeper://"+user+"@"+s.Addr+chroot), "k")
	for _, who := range []string{"", "anylock:wrong@"} {
		b, err := openURL(t.Context(), "zookeeper://"+who+s.Addr+chroot)
		if err == nil {
			_, err = b.Acquire(t.Context(), req("k", time.Minute))
			_ = b.Close()
		}
		if !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a stranger %q: %v", who, err)
		}
	}
}
