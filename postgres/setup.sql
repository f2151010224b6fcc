-- What roles and databases may have set would end a wait, let a commit that a token depends on go unwritten, or keep a session whose
-- client is dead waiting for a standby, with its locks and without a timer.
SELECT pg_catalog.set_config('statement_timeout', '0', false), pg_catalog.set_config('lock_timeout', '0', false),
    pg_catalog.set_config('idle_session_timeout', '0', false), pg_catalog.set_config('synchronous_commit', 'local', false)
