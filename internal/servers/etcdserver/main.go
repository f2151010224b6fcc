// Command etcdserver is the current release of etcd, built from the release's own packages. It is a separate module, so
// that users of locks do not download etcd's dependencies. Package servers builds it for tests.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
