-- The token is taken after the lock: CASE evaluates its branch last. See token.go.
SELECT CASE WHEN pg_try_advisory_lock($1) THEN
    CASE WHEN age($2::xid) = 1 THEN '=' ELSE TOKEN END END
WHERE current_setting('anylock.session', true) = 'MARK'
