-- Ends the session that has the lock, if what it said last is still this: the label of the lease that is to be broken, and of no other.
SELECT pg_terminate_backend(l.pid)
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.locktype = 'advisory' AND l.objsubid = 1
    AND l.classid = $1::oid AND l.objid = $2::oid
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND a.query = $3
