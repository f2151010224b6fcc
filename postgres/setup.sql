-- The role that logged in sees and may end its sessions; a role that SET ROLE has set may not.
SELECT pg_catalog.set_config('role', 'none', false);
-- Roles and databases may have set limits that would end a wait. They may also let a commit that a token depends on go
-- unwritten, or wait for a standby: a session whose client is dead would then keep its locks without a timer.
SELECT pg_catalog.set_config('statement_timeout', '0', false), pg_catalog.set_config('lock_timeout', '0', false),
    pg_catalog.set_config('idle_session_timeout', '0', false),
    pg_catalog.set_config('synchronous_commit', 'local', false);
-- A name that no other session has ever had: the process id, and when the session began. See orphan.sql.
SELECT pg_catalog.concat_ws(' ', pid, extract(epoch FROM backend_start)) FROM pg_catalog.pg_stat_activity
WHERE pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
