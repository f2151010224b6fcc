WITH held AS MATERIALIZED (SELECT pg_advisory_lock($1) WHERE current_setting('anylock.session', true) = 'MARK')
SELECT CASE WHEN age($2::xid) = 1 THEN '='
    ELSE pg_current_xact_id()::text || left(pg_logical_emit_message(true, 'anylock', '')::text, 0) END FROM held
