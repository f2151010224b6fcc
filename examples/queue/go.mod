module github.com/anylock/lock/examples/queue

go 1.26.0

replace github.com/anylock/lock => ../..

require github.com/anylock/lock v0.0.0

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
