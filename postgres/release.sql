SELECT pg_advisory_unlock($1) WHERE current_setting('anylock.session', true) = 'MARK'
