-- Counts, among the server's locks, one that it has granted just now.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT pg_catalog.pg_try_advisory_xact_lock(%[1]d);
SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks
WHERE locktype OPERATOR(pg_catalog.=) 'advisory' AND objsubid OPERATOR(pg_catalog.=) 1 AND granted
    AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
    AND ((classid::bigint OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.|) objid::bigint)
        OPERATOR(pg_catalog.=) %[1]d;
ROLLBACK
