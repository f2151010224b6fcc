SELECT greatest(1, least(
    current_setting('max_connections')::bigint
        - current_setting('superuser_reserved_connections')::bigint
        - coalesce(current_setting('reserved_connections', true), '0')::bigint
        - (SELECT sum(numbackends) FROM pg_stat_database),
    (SELECT CASE WHEN datconnlimit >= 0 THEN datconnlimit - numbackends END
        FROM pg_database JOIN pg_stat_database ON pg_stat_database.datid = pg_database.oid
        WHERE pg_database.datname = current_database()),
    (SELECT CASE WHEN rolconnlimit >= 0 AND NOT rolsuper THEN rolconnlimit
            - (SELECT count(*) FROM pg_stat_activity WHERE usesysid = pg_roles.oid) END
        FROM pg_roles WHERE rolname = current_user)
))
