package servers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// EtcdImageEnv names the environment variable with the container image of etcd, if it is not to be that of 3.6.
const EtcdImageEnv = "ANYLOCK_TEST_ETCD_IMAGE"

var etcdKind = kind{
	name:     "etcd",
	find:     findProgram([]string{"etcd"}, "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/etcd*"),
	program:  "etcd",
	image:    "gcr.io/etcd-development/etcd:v3.6.5",
	imageEnv: EtcdImageEnv,
	taken:    "address already in use",
}

// An etcdSpec says how to run one etcd.
type etcdSpec struct {
	name    string // of the member, unique among all that tests start
	ports   []int  // for clients and for peers
	peers   string // the members' names and URLs
	state   string // of the cluster when this member is started first: new or existing
	data    string // its folder
	ask     func(c *clientv3.Config)
	tls     bool
	options []string
	files   map[string]string
}

// newEtcdSpec makes the spec of a member, whose peers are still to be told.
func (g *group) newEtcdSpec(t testing.TB) etcdSpec {
	t.Helper()
	spec := etcdSpec{ports: []int{g.port(t), g.port(t)}, state: "new", data: "data"}
	spec.name = "member-" + strconv.Itoa(spec.ports[0]) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	spec.peers = spec.peer()
	return spec
}

// peer is the member's part of the list of peers.
func (spec etcdSpec) peer() string { return spec.name + "=" + spec.peerURL() }

func (spec etcdSpec) peerURL() string { return "http://" + loopback(spec.ports[1]) }

func (spec etcdSpec) launch() launch {
	return launch{ports: spec.ports, command: spec.command, ready: spec.ready, empty: without(spec.data)}
}

func (spec etcdSpec) command(at place) (args []string, files map[string]string) {
	scheme := "http://"
	if spec.tls {
		scheme = "https://"
	}
	args = []string{
		"--name", spec.name, "--data-dir", spec.data, "--logger", "zap",
		"--listen-client-urls", scheme + at.bind + ":" + at.ports[0], "--advertise-client-urls", scheme + "127.0.0.1:" + at.ports[0],
		"--listen-peer-urls", "http://" + at.bind + ":" + at.ports[1], "--initial-advertise-peer-urls", spec.peerURL(),
		"--initial-cluster", spec.peers, "--initial-cluster-state", spec.state, "--initial-cluster-token", "anylock",
	}
	return append(args, spec.options...), spec.files
}

// client returns a client of the servers at addrs.
func (spec etcdSpec) client(addrs ...string) (*clientv3.Client, error) {
	c := clientv3.Config{Endpoints: addrs, Logger: zap.NewNop(), DialTimeout: 2 * time.Second}
	if spec.ask != nil {
		spec.ask(&c)
	}
	return clientv3.New(c)
}

// ready asks the server for a read that the whole cluster agrees on, and whether it is the member that we started.
func (spec etcdSpec) ready(ctx context.Context, s *Server) error {
	c, err := spec.client(s.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Get(ctx, "anylock-ready", clientv3.WithCountOnly()); err != nil {
		return err
	}
	list, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range list.Members {
		if m.ID == list.Header.MemberId {
			if m.Name != spec.name {
				return fmt.Errorf("member %s answers on %s, not %s", m.Name, s.Addr, spec.name)
			}
			return nil
		}
	}
	return fmt.Errorf("member %x is not in its own list", list.Header.MemberId)
}

// joined is the list of peers of a cluster.
func joined(specs []etcdSpec) string {
	var list []string
	for _, s := range specs {
		list = append(list, s.peer())
	}
	return strings.Join(list, ",")
}
