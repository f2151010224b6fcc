-- Who has the lock, in which mode, and who waits for it. pg_locks shows a lock on one bigint as two halves, with
-- objsubid 1.
SELECT l.granted, l.pid, coalesce(a.query, ''), coalesce(a.application_name, ''), coalesce(a.state, ''),
    coalesce((extract(epoch FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) a.state_change)
        OPERATOR(pg_catalog.*) 1000000)::bigint, 0),
    l.mode OPERATOR(pg_catalog.=) 'ShareLock'
FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) l.pid
WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.objsubid OPERATOR(pg_catalog.=) 1
    AND ((l.classid::bigint OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.|) l.objid::bigint)
        OPERATOR(pg_catalog.=) $1::bigint
    AND l.database OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database
        WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
