-- Sessions of ours whose connections are gone, which the server has not noticed yet.
SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
WHERE pg_catalog.concat_ws(' ', pid, extract(epoch FROM backend_start))
    OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.text[])
