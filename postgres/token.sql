SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, txid_current()
