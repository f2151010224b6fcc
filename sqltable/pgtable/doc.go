// Package pgtable keeps locks in a table of Postgres: it registers the scheme postgres+table with package lock, and
// connects by pgx. See package sqltable. An application that has a *sql.DB uses sqltable.New instead.
//
//	postgres+table://[user[:password]@][host[:5432]][,…][/database]
//
// pgx receives all parameters unchanged except the store's own:
//
//	lock_table=name         name of the table, with its schema if necessary; default anylock
//	lock_create=false       do not create the table if it is missing
//	lock_max_conns=n        most connections of this process, for all its leases and waiters; default 8
//	timeout=duration        time limit for one request; default 2s
package pgtable
