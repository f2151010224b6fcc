package link

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		url   string
		hosts []string
		want  string // with the hosts x:1, y:2
	}{
		{"redis://h", []string{"h:6379"}, "redis://x:1,y:2"},
		{"redis://u:p%40@h:7/3?a=b", []string{"h:7"}, "redis://u:p%40@x:1,y:2/3?a=b"},
		{"rediss://h?x=/", []string{"h:6379"}, "rediss://x:1,y:2?x=/"},
		{"redis+redlock://a,b:2,c/0", []string{"a:6379", "b:2", "c:6379"}, "redis+redlock://x:1,y:2/0"},
		{"etcd://[::1]:5,[::2]/p", []string{"[::1]:5", "[::2]:2379"}, "etcd://x:1,y:2/p"},
		{"zookeeper://a,b/chroot", []string{"a:2181", "b:2181"}, "zookeeper://x:1,y:2/chroot"},
		{"memcached://a", []string{"a:11211"}, "memcached://x:1,y:2"},
		{"postgres://u@h/db", []string{"h:5432"}, "postgres://u@x:1,y:2/db"},
		{"strange://h:9", []string{"h:9"}, "strange://x:1,y:2"},
	} {
		hosts, err := hostsOf(c.url)
		if err != nil || !slices.Equal(hosts, c.hosts) {
			t.Errorf("hosts of %s: %v, %v, want %v", c.url, hosts, err, c.hosts)
		}
		if got := withHosts(c.url, []string{"x:1", "y:2"}); got != c.want {
			t.Errorf("%s with other hosts: %s, want %s", c.url, got, c.want)
		}
	}
	for _, url := range []string{"memory:", "file:///x", "redis+sentinel://h/m", "redis+cluster://h", "rediss+cluster://h",
		"redis+redlock://h1,h2?lock_node=redis%3A%2F%2Fh3", "strange://h", "x"} {
		if err := Linkable(url); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", url, err)
		}
		if _, _, err := URL(url)(context.Background()); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", url, err)
		}
	}
}

type fake struct {
	backend.Backend
	url string
}

func init() {
	driver.Register(driver.Driver{
		Name: "linked", URLs: []driver.URLForm{{Scheme: "linked", Hosts: driver.OneHost, Path: driver.OptionalPath}},
		Examples: []string{"linked://h"},
		Open:     func(_ context.Context, u driver.URL) (backend.Backend, error) { return fake{url: u.Raw}, nil },
	})
}

func TestURL(t *testing.T) {
	e := newEcho(t)
	b, l, err := URL("linked://" + e.addr + "/x")(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.(opening).Addrs()[0]
	if got, want := b.(fake).url, "linked://"+addr+"/x"; got != want {
		t.Errorf("opened %s, want %s", got, want)
	}
	dial(t, addr).ping()
}

func TestLinkedClosesItsLinkWhenOpenFails(t *testing.T) {
	e := newEcho(t)
	no := errors.New("no")
	var addr string
	_, _, err := Linked([]string{e.addr}, func(_ context.Context, addrs []string) (backend.Backend, error) {
		addr = addrs[0]
		dial(t, addr).ping()
		return nil, no
	})(context.Background())
	if err != no {
		t.Errorf("error %v, want that of open", err)
	}
	if l, err := New(e.addr); err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
}
