-- Sessions of ours whose connections are gone, and that the server has not noticed yet.
SELECT ghost.pid, ghost.begun, pg_terminate_backend(a.pid) FROM unnest($1::text[], $2::text[]) AS ghost (pid, begun)
    JOIN pg_stat_activity a ON a.pid = ghost.pid::int AND a.backend_start = ghost.begun::timestamptz
