-- What a new connection must know of its server. The timeouts would end a wait.
SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.version(), pg_catalog.pg_backend_pid(),
    (SELECT setting FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) 'track_activity_query_size'),
    (SELECT backend_start::pg_catalog.text FROM pg_catalog.pg_stat_activity
        WHERE pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()),
    pg_catalog.current_setting('max_locks_per_transaction')::bigint OPERATOR(pg_catalog.*)
        (pg_catalog.current_setting('max_connections')::bigint OPERATOR(pg_catalog.+)
            pg_catalog.current_setting('max_prepared_transactions')::bigint)
