-- What a new connection must know of its server. The timeouts would end a wait.
SELECT pg_is_in_recovery(), version(), pg_backend_pid(),
    (SELECT setting FROM pg_settings WHERE name = 'track_activity_query_size'),
    (SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()),
    current_setting('max_locks_per_transaction')::bigint
        * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)
