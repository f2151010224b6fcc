SELECT txid_current()::text || left(pg_logical_emit_message(true, 'anylock', '')::text, 0)
