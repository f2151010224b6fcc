SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, txid_current()::text
    || left(set_config('synchronous_commit', 'local', true), 0)
    || left(pg_logical_emit_message(true, 'anylock', '')::text, 0)
