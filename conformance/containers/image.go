package containers

import (
	"cmp"
	"os"
	"strings"
)

// An image is the official container image of a server, and how the suite runs it.
type image struct {
	name string // of the server
	ref  string // of the image
	port string // on which the server listens in its container
	url  string // of the store, with HOST in the place of the server's address

	command []string // HOST stands for the server's address, as above
	env     map[string]string
	files   map[string]string // by path

	many int // leases that one client of the suite may hold at once; 0 for the suite's default
}

var images = []image{
	{name: "redis", ref: "redis:7", port: "6379", url: "redis://HOST",
		command: []string{"redis-server", "--protected-mode", "no", "--appendonly", "yes"}},
	{name: "valkey", ref: "valkey/valkey:8.1", port: "6379", url: "redis://HOST",
		command: []string{"valkey-server", "--protected-mode", "no", "--appendonly", "yes"}},
	{
		name: "etcd", ref: "gcr.io/etcd-development/etcd:v3.6.5", port: "2379", url: "etcd://HOST",
		command: []string{"/usr/local/bin/etcd", "--listen-client-urls=http://0.0.0.0:2379",
			"--advertise-client-urls=http://HOST"},
	},
	{
		// A server's restart, which takes seconds on a busy machine, must not outlast a session.
		name: "zookeeper", ref: "zookeeper:3.9", port: "2181", url: "zookeeper://HOST?session_timeout=6s",
		command: []string{"zkServer.sh", "start-foreground"},
		files:   map[string]string{"/conf/zoo.cfg": zooCfg},
	},
	{
		name: "postgres", ref: "postgres:17", port: "5432", url: "postgres://postgres@HOST/postgres?sslmode=disable",
		command: []string{"postgres", "-c", "max_connections=900", "-c", "fsync=off"},
		env:     map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"},
		many:    14, // each lease has a connection
	},
	{name: "memcached", ref: "memcached:1.6", port: "11211", url: "memcached://HOST",
		command: []string{"memcached", "-c", "4096"}},
}

// zooCfg allows sessions from 1 s to 10 s.
const zooCfg = `tickTime=500
dataDir=/data
clientPort=2181
admin.enableServer=false
maxClientCnxns=0
`

// reference returns the image to run: $ANYLOCK_TEST_REDIS_IMAGE for Redis, for example, else the official one.
func (i image) reference() string {
	return cmp.Or(os.Getenv("ANYLOCK_TEST_"+strings.ToUpper(i.name)+"_IMAGE"), i.ref)
}

// at returns text with the address addr in the place of HOST.
func at(text, addr string) string { return strings.ReplaceAll(text, "HOST", addr) }
