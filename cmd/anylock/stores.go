package main

// The stores that --backend can name.
import (
	_ "github.com/anylock/lock/memory"
)
