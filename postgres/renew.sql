-- Any statement starts the idle time anew. The row proves that the session is the one that holds the lock.
SELECT 1 WHERE pg_catalog.current_setting('anylock.session', true) OPERATOR(pg_catalog.=) 'MARK'
