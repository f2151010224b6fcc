package main

// The stores that --backend can name.
import (
	_ "github.com/anylock/lock/file"
	_ "github.com/anylock/lock/memory"
	_ "github.com/anylock/lock/redis"
)
