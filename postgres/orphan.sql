-- Sessions of ours whose connections are gone, which the server has not noticed yet.
SELECT pg_catalog.pg_terminate_backend(a.pid)
FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[])) AS orphan (pid, begun)
    JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) orphan.pid::int
        AND extract(epoch FROM a.backend_start)::pg_catalog.text OPERATOR(pg_catalog.=) orphan.begun
