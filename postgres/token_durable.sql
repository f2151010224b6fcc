SELECT txid_current()::text
    || left(set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'local'), true), 0)
    || left(pg_logical_emit_message(true, 'anylock', '')::text, 0)
