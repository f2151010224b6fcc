-- Ends the session that has the lock, if what it said last is still this and it has no other lock. Tells how many it has. What a session
-- at rest has said is done, so that its locks tell who is on it: its label may name a neighbour that was refused or has gone.
SELECT n, CASE WHEN n = 1 THEN pg_terminate_backend(l.pid) END
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM pg_locks WHERE pid = l.pid AND granted AND locktype = 'advisory') AS own
WHERE l.granted AND l.locktype = 'advisory' AND l.objsubid = 1
    AND l.classid = $1::oid AND l.objid = $2::oid
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND a.query = $3 AND a.state LIKE 'idle%'
