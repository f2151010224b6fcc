-- Ends the session that has the lock, if its last request is still $3 and it has no other lock. Returns how many locks it has. The last
-- request of an idle session is complete, so its locks show whose it is: its label may name a neighbour that was refused or has ended.
SELECT own.n, CASE WHEN own.n OPERATOR(pg_catalog.=) 1 THEN pg_catalog.pg_terminate_backend(l.pid) END
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) l.pid
    CROSS JOIN LATERAL (SELECT pg_catalog.count(*) AS n FROM pg_catalog.pg_locks
        WHERE pid OPERATOR(pg_catalog.=) l.pid AND granted AND locktype OPERATOR(pg_catalog.=) 'advisory') AS own
WHERE l.granted AND l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.objsubid OPERATOR(pg_catalog.=) 1
    AND l.classid OPERATOR(pg_catalog.=) $1::pg_catalog.oid AND l.objid OPERATOR(pg_catalog.=) $2::pg_catalog.oid
    AND l.database OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database
        WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
    AND a.query OPERATOR(pg_catalog.=) $3 AND pg_catalog.starts_with(a.state, 'idle')
