package main

import "net"

// listenPrivately creates a socket with the access rights of its directory.
func listenPrivately(path string) (net.Listener, error) { return net.Listen("unix", path) }
