//go:build race

package etcd

// raced says that the race detector is on, which makes clients several times slower.
const raced = true
