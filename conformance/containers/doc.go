// Package containers runs the conformance suite on the official container images of the servers. Its tests start the
// images through Docker, and pause, kill and replace the containers. It is a module of its own, so that no user of
// package lock downloads Docker's client. "make test-docker" runs it.
package containers
