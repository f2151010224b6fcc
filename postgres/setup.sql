SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false),
    set_config('idle_session_timeout', '0', false)
