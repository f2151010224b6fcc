//go:build !race

package etcd

// raced reports whether the race detector is on, which makes clients several times slower.
const raced = false
