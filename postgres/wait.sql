-- The lock is taken before the row comes out of the table expression, and the token after that.
WITH held AS MATERIALIZED (SELECT pg_catalog.pg_advisory_lock($1))
SELECT CASE WHEN pg_catalog.age($2::pg_catalog.xid) OPERATOR(pg_catalog.=) 1 THEN '=' ELSE TOKEN END FROM held
