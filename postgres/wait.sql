-- The lock is taken before the row comes out of the table expression, and the token after that.
WITH held AS MATERIALIZED (SELECT pg_advisory_lock($1) WHERE current_setting('anylock.session', true) = 'MARK')
SELECT CASE WHEN age($2::xid) = 1 THEN '=' ELSE TOKEN END FROM held
