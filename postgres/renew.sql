-- Any statement starts the idle time anew. The answer proves that the session is the one that holds the lock.
SELECT pg_backend_pid()
