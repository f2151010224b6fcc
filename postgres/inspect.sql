-- Who has the lock, who waits for it. pg_locks shows a lock on one bigint as two halves, with objsubid 1.
SELECT l.granted, l.pid, coalesce(a.query, ''), coalesce(a.application_name, ''), coalesce(a.state, ''),
    coalesce((extract(epoch FROM clock_timestamp() - a.state_change) * 1000000)::bigint, 0)
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.objsubid = 1
    AND l.classid = $1::oid AND l.objid = $2::oid
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
