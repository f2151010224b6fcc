// Package memcached keeps locks in one memcached.
package memcached
