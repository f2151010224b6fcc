-- A session of ours whose connection is gone, and that the server has not noticed yet.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1::int AND backend_start = $2::timestamptz
