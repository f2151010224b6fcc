BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL idle_in_transaction_session_timeout = %d;
SET LOCAL statement_timeout = 0;
SELECT pg_backend_pid(), pg_try_advisory_xact_lock(%d)
