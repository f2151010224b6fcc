SELECT greatest(1, least(
    pg_catalog.current_setting('max_connections')::bigint
        OPERATOR(pg_catalog.-) pg_catalog.current_setting('superuser_reserved_connections')::bigint
        OPERATOR(pg_catalog.-) coalesce(pg_catalog.current_setting('reserved_connections', true), '0')::bigint
        OPERATOR(pg_catalog.-) (SELECT pg_catalog.sum(numbackends) FROM pg_catalog.pg_stat_database)::bigint,
    (SELECT CASE WHEN d.datconnlimit OPERATOR(pg_catalog.>=) 0 THEN d.datconnlimit OPERATOR(pg_catalog.-) s.numbackends END
        FROM pg_catalog.pg_database d JOIN pg_catalog.pg_stat_database s ON s.datid OPERATOR(pg_catalog.=) d.oid
        WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()),
    (SELECT CASE WHEN r.rolconnlimit OPERATOR(pg_catalog.>=) 0 AND NOT r.rolsuper THEN r.rolconnlimit OPERATOR(pg_catalog.-)
            (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity a WHERE a.usesysid OPERATOR(pg_catalog.=) r.oid) END
        FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user)
))
