package main

import (
	"github.com/redis/go-redis/v9/logging"

	// The stores that --backend can name.
	_ "github.com/anylock/lock/etcd"
	_ "github.com/anylock/lock/file"
	_ "github.com/anylock/lock/memcached"
	_ "github.com/anylock/lock/memory"
	_ "github.com/anylock/lock/pair"
	_ "github.com/anylock/lock/postgres"
	_ "github.com/anylock/lock/redis"
	_ "github.com/anylock/lock/redis/redlock"
	_ "github.com/anylock/lock/sqltable/pgtable"
	_ "github.com/anylock/lock/zookeeper"
)

// go-redis prints every failed connection on standard error, which belongs to the command. Relevant failures reach us
// as errors.
func init() { logging.Disable() }
