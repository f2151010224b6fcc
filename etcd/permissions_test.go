package etcd

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// The user that docs/stores/etcd.md creates has permission for every operation, and none for another namespace. The
// test runs the page's etcdctl commands through clientv3, because etcdctl comes in a separate package.
func TestPermissionsOfThePage(t *testing.T) {
	t.Parallel()
	const password = "secret"
	s := servers.EtcdAuth(t, "another", password, "other/")
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Username: "root", Password: password,
		Logger: zap.NewNop(), DialTimeout: soon})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx := t.Context()
	for _, line := range storetest.Permissions(t, "etcd") {
		words := strings.Fields(line)
		if len(words) < 4 || words[0] != "etcdctl" {
			t.Fatalf("not a command of etcdctl: %q", line)
		}
		args := words[3:]
		switch words[1] + " " + words[2] {
		case "user add":
			user, password, _ := strings.Cut(args[0], ":")
			_, err = root.UserAdd(ctx, user, password)
		case "role add":
			_, err = root.RoleAdd(ctx, args[0])
		case "role grant-permission":
			if len(args) != 4 || args[1] != "--prefix=true" || args[2] != "readwrite" {
				t.Fatalf("another permission: %q", line)
			}
			_, err = root.RoleGrantPermission(ctx, args[0], args[3], clientv3.GetPrefixRangeEnd(args[3]),
				clientv3.PermissionType(clientv3.PermReadWrite))
		case "user grant-role":
			_, err = root.UserGrantRole(ctx, args[0], args[1])
		default:
			t.Fatalf("unknown: %q", line)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	storetest.UseAll(t, opened(t, "etcd://anylock:PASSWORD@"+s.Addr), "k")
	b, err := openURL(ctx, "etcd://anylock:PASSWORD@"+s.Addr+"/other")
	if err == nil {
		_ = b.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("another namespace: %v", err)
	}
}
