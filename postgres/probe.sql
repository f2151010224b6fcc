BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL idle_in_transaction_session_timeout = 60000;
SELECT pg_try_advisory_xact_lock(%[1]d);
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND pid = pg_backend_pid()
    AND classid = '%[2]d'::oid AND objid = '%[3]d'::oid
