BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL idle_in_transaction_session_timeout = %d;
SET LOCAL statement_timeout = 0;
SELECT (extract(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000)::bigint,
    pg_catalog.pg_try_advisory_xact_lock(%d)
