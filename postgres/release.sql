SELECT pg_catalog.pg_advisory_unlock($1)
WHERE pg_catalog.current_setting('anylock.session', true) OPERATOR(pg_catalog.=) 'MARK'
