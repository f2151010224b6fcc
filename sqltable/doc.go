// Package sqltable keeps locks in a table of a database that the application already has: Postgres, MySQL, MariaDB or
// SQLite. The table needs no session, so that it works through every pooler, any number of leases share a few
// connections, and leases survive restarts. Package fence can check such a lease inside the transaction that writes.
//
// This package needs only database/sql. It works on any *sql.DB of the application ([New]). A package for each database
// adds URLs, and links the database's driver:
//
//   - sqltable/pgtable: postgres+table://
//   - sqltable/mysqltable, a module of its own: mysql://
//   - sqltable/sqlitetable, a module of its own: sqlite:///
//
// # How a lease is kept
//
// A lease is a row: key, owner, token, and the time at which it expires. One statement grants it, and one renews or
// releases it; each commits by itself. The package never uses a transaction of the application. All times are those of
// the database's clock. A step forward of that clock may end live leases; a step back keeps the keys of dead holders
// for longer. Waiters poll, at first after 5 to 15 ms and later every 5 to 150 ms, in no order.
//
// A token is the database's time in microseconds at the grant, or one more than the key's last token if that is higher.
// Rows of keys that have been free for a day are deleted.
package sqltable
