-- The token is taken after the lock: CASE evaluates its branch last. See token.go.
SELECT CASE WHEN pg_catalog.pg_try_advisory_lock($1) THEN
    CASE WHEN pg_catalog.age($2::pg_catalog.xid) OPERATOR(pg_catalog.=) 1 THEN '=' ELSE TOKEN END END
