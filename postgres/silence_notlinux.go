//go:build !linux

package postgres

import (
	"net"
	"time"
)

func limitSilence(*net.TCPConn, time.Duration) {}
