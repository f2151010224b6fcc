-- The token is taken after the lock: CASE evaluates its branch last. See token.go.
SELECT pg_backend_pid(), CASE WHEN pg_try_advisory_lock($1) THEN
    CASE WHEN age($2::xid) = 1 THEN '=' ELSE pg_current_xact_id()::text END END
