module github.com/anylock/lock/sqltable/mysqltable

go 1.26.0

replace github.com/anylock/lock => ../..

require (
	github.com/anylock/lock v0.0.0
	github.com/go-sql-driver/mysql v1.10.1
	go.uber.org/goleak v1.3.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/anishathalye/porcupine v1.3.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
