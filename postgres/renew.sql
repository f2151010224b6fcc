-- Any statement starts the idle time anew. The row proves that the session is the one that holds the lock.
SELECT 1 WHERE current_setting('anylock.session', true) = 'MARK'
