-- Any statement starts the idle time anew.
SELECT 1
