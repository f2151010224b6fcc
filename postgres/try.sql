-- The token is taken after the lock: CASE evaluates its branch last.
SELECT pg_backend_pid(), CASE WHEN pg_try_advisory_lock($1) THEN pg_current_xact_id()::text END
