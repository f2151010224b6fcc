-- A queued session that lost its client leaves the queue. Not every platform has it.
SELECT set_config('client_connection_check_interval', '1s', false) WHERE current_setting('anylock.session', true) = 'MARK'
