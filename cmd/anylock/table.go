package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/anylock/lock/sqltable"
)

func (a *app) tableCommand() *cobra.Command {
	dialect := newChoice("postgres", "mysql", "sqlite")
	table := sqltable.DefaultTable
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Print the SQL that creates the table of leases in a database",
		Long: `table prints the SQL statement that creates the table of leases of a store like
postgres+table://. By default the store creates the table itself. If the store's
database user must not create tables, use this statement in your migrations, and
add lock_create=false to the URL.

Exit codes: 0 printed; 64 wrong usage; 74 the statement cannot be written.`,
		Example: `  anylock table --dialect mysql
  anylock table --table app.locks`,
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			for _, d := range []sqltable.Dialect{sqltable.Postgres, sqltable.MySQL, sqltable.SQLite} {
				if !dialect.is(d.String()) {
					continue
				}
				ddl, err := sqltable.DDL(d, table)
				if err == nil {
					_, err = fmt.Fprintln(a.stdout, ddl+";")
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().Var(dialect, "dialect", "the database's `DIALECT`: postgres, mysql (and MariaDB), sqlite")
	cmd.Flags().StringVar(&table, "table", table, "the table's `NAME`, with its schema if necessary")
	return cmd
}
