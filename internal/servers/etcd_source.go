package servers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

var etcdKind = kind{
	name:  "etcd",
	find:  findProgram([]string{"etcd"}, "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/etcd*"),
	taken: "address already in use",
}

// An etcdSpec describes how to run one etcd.
type etcdSpec struct {
	name    string     // of the member; unique among all members that tests start
	ports   []int      // for clients and for peers
	peers   string     // the members' names and URLs
	state   string     // of the cluster when this member first starts: new or existing
	data    string     // the member's folder
	client  etcdClient // sends requests to the server
	options []string
	files   map[string]string
}

// newEtcdSpec returns the spec of a member that is its own only peer.
func (g *group) newEtcdSpec(t testing.TB) etcdSpec {
	t.Helper()
	spec := etcdSpec{ports: []int{g.port(t), g.port(t)}, state: "new", data: "data"}
	spec.name = "member-" + strconv.Itoa(spec.ports[0]) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	spec.peers = spec.peer()
	return spec
}

// peer returns the member's entry in the list of peers.
func (spec etcdSpec) peer() string { return spec.name + "=" + spec.peerURL() }

func (spec etcdSpec) peerURL() string { return "http://" + loopback(spec.ports[1]) }

func (spec etcdSpec) launch() launch {
	return launch{ports: spec.ports, command: spec.command, ready: spec.ready, empty: without(spec.data)}
}

func (spec etcdSpec) command(at place) (args []string, files map[string]string) {
	scheme := "http://"
	if spec.client.tls != nil {
		scheme = "https://"
	}
	args = []string{
		"--name", spec.name, "--data-dir", spec.data, "--logger", "zap",
		"--listen-client-urls", scheme + bindHost + ":" + at.ports[0], "--advertise-client-urls", scheme + "127.0.0.1:" +
			at.ports[0],
		"--listen-peer-urls", "http://" + bindHost + ":" + at.ports[1], "--initial-advertise-peer-urls", spec.peerURL(),
		"--initial-cluster", spec.peers, "--initial-cluster-state", spec.state, "--initial-cluster-token", "anylock",
	}
	return append(args, spec.options...), spec.files
}

// ready performs a linearizable read, and checks that the server is the member that we started.
func (spec etcdSpec) ready(ctx context.Context, s *Server) error {
	if err := spec.client.read(ctx, s.Addr); err != nil {
		return err
	}
	list, err := spec.client.members(ctx, s.Addr)
	if err != nil {
		return err
	}
	for _, m := range list.Members {
		if m.ID == list.Header.MemberID {
			if m.Name != spec.name {
				return fmt.Errorf("member %s answers on %s, not %s", m.Name, s.Addr, spec.name)
			}
			return nil
		}
	}
	return fmt.Errorf("member %s is not in its own list", list.Header.MemberID)
}

// joined returns the list of peers of a cluster.
func joined(specs []etcdSpec) string {
	var list []string
	for _, s := range specs {
		list = append(list, s.peer())
	}
	return strings.Join(list, ",")
}
