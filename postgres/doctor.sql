-- What doctor must know of a server. Settings are as a new session of this role has them, before the store sets any.
SELECT name, reset_val FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) ANY (ARRAY[
    'statement_timeout', 'lock_timeout', 'idle_session_timeout', 'transaction_timeout', 'fsync', 'track_activities'])
UNION ALL SELECT 'clock',
    (extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text
