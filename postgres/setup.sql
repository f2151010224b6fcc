-- What roles and databases may have set would end a wait, or let a commit that a token depends on go unwritten.
SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false),
    set_config('idle_session_timeout', '0', false),
    set_config('synchronous_commit',
        replace(current_setting('synchronous_commit'), 'off', 'local'), false)
