SELECT (extract(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000)::bigint,
    pg_catalog.concat(pg_catalog.txid_current(),
        pg_catalog.left(pg_catalog.set_config('synchronous_commit', 'local', true), 0),
        pg_catalog.left(pg_catalog.pg_logical_emit_message(true, 'anylock', '')::pg_catalog.text, 0))
