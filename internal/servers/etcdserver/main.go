// Command etcdserver is etcd as its current release is, built from the release's own packages. It is a module of its
// own, so that nobody who uses a lock has to know etcd's dependencies. Package servers builds it for tests.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
