BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL idle_in_transaction_session_timeout = %d;
SET LOCAL statement_timeout = 0;
SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, pg_try_advisory_xact_lock(%d)
