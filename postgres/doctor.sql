-- What is to be known of a server. Settings are as a new session of this user's has them, before we have set any.
SELECT name, reset_val FROM pg_settings WHERE name IN ('server_version', 'server_version_num', 'statement_timeout', 'lock_timeout',
    'idle_session_timeout', 'transaction_timeout', 'fsync', 'track_activities')
UNION ALL SELECT 'standbys', count(*)::text FROM pg_stat_replication
UNION ALL SELECT 'clock', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text
