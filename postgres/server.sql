-- What a new connection must know of its server.
SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.pg_backend_pid(),
    pg_catalog.current_setting('max_locks_per_transaction')::bigint OPERATOR(pg_catalog.*)
        (pg_catalog.current_setting('max_connections')::bigint OPERATOR(pg_catalog.+)
            pg_catalog.current_setting('max_prepared_transactions')::bigint)
