package zookeeper

import (
	"github.com/anylock/lock/internal/storetest"
)

// What all stores' tests do.
var (
	opened  = storetest.Opened[*Backend]
	req     = storetest.Try
	waiting = storetest.Wait
	acquire = storetest.Acquire
	release = storetest.Release
	until   = storetest.Until
)
