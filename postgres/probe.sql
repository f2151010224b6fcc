BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL idle_in_transaction_session_timeout = 60000;
SELECT pg_catalog.pg_try_advisory_xact_lock(%[1]d);
SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks
WHERE locktype OPERATOR(pg_catalog.=) 'advisory' AND objsubid OPERATOR(pg_catalog.=) 1 AND granted
    AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
    AND classid OPERATOR(pg_catalog.=) '%[2]d'::pg_catalog.oid AND objid OPERATOR(pg_catalog.=) '%[3]d'::pg_catalog.oid
