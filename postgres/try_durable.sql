-- The message makes the commit wait for the write-ahead log, so that no crash gives the same token again.
SELECT CASE WHEN pg_try_advisory_lock($1) THEN
    CASE WHEN age($2::xid) = 1 THEN '='
    ELSE pg_current_xact_id()::text || left(pg_logical_emit_message(true, 'anylock', '')::text, 0) END END
WHERE current_setting('anylock.session', true) = 'MARK'
