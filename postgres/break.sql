-- Ends the session that has the lock, if its label names the owner. A session has one lease, and its label is there
-- before the lock.
SELECT pg_catalog.pg_terminate_backend(l.pid)
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) l.pid
WHERE l.granted AND l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.objsubid OPERATOR(pg_catalog.=) 1
    AND ((l.classid::bigint OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.|) l.objid::bigint)
        OPERATOR(pg_catalog.=) $1::bigint
    AND l.database OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database
        WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
    AND pg_catalog.strpos(a.query, $2) OPERATOR(pg_catalog.>) 0
