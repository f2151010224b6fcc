SELECT pg_catalog.set_config('idle_session_timeout', $1, false)
WHERE pg_catalog.current_setting('anylock.session', true) OPERATOR(pg_catalog.=) 'MARK'
