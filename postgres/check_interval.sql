-- A queued session that lost its client leaves the queue. Not every platform has this setting.
SELECT pg_catalog.set_config('client_connection_check_interval', '1s', false)
