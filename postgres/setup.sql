-- The session is ours from now on, unless it is another's: then there is no row, and nothing has changed. What roles and databases may
-- have set would end a wait, let a commit that a token depends on go unwritten, or keep a session whose client is dead waiting for a
-- standby, with its locks and without a timer.
SELECT pg_catalog.set_config('anylock.session', 'MARK', false),
    pg_catalog.set_config('statement_timeout', '0', false), pg_catalog.set_config('lock_timeout', '0', false),
    pg_catalog.set_config('idle_session_timeout', '0', false), pg_catalog.set_config('synchronous_commit', 'local', false)
WHERE coalesce(pg_catalog.current_setting('anylock.session', true), '') OPERATOR(pg_catalog.=) ''
