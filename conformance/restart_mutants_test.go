package conformance_test

// restartMutants are bugs in what a restart does to odd keys, to leases of dead holders, and to waiters.
var restartMutants = []mutant{
	{"restart forgets keys with a NUL", "RestartKeepsOddKeys"},
	{"restart forgets keys that are not UTF-8", "RestartKeepsOddKeys"},
	{"restart takes a newline for the end of a key", "RestartKeepsOddKeys"},
	{"restart forgets keys over 255 bytes", "RestartKeepsOddKeys"},
	{"restart counts the tokens of keys over 255 bytes up", "RestartKeepsOddKeys"},
	{"release of an odd key finds nothing after a restart", "RestartKeepsOddKeys"},

	{"restart begins leases anew for their last TTL", "RestartEndsDeadLeases"},
	{"restart puts shortened leases back to their first TTL", "RestartEndsDeadLeases"},
	{"lease that ends as the store restarts begins anew", "RestartEndsDeadLeases"},
	{"restart brings a released lease back", "RestartEndsDeadLeases"},
	{"restart ends leases that were waited for", "RestartEndsDeadLeases"},
	{"lease of a closed client never ends after a restart", "RestartEndsDeadLeases"},

	{"lease that outlives a restart has no timer", "RestartKeepsDeadlines"},
	{"restart drops leases with less than 500 ms left", "RestartKeepsDeadlines"},
	{"restart keeps leases with less than 500 ms left for good", "RestartKeepsDeadlines"},
	{"restart drops leases of disconnected clients", "RestartKeepsDeadlines"},
	{"restart keeps leases of disconnected clients for good", "RestartKeepsDeadlines"},
	{"client that was disconnected at a restart loses its leases when it reconnects", "RestartSparesDisconnectedHolder"},

	{"restart parks all but the first four waiters", "RestartServesAllWaiters"},
	{"restart keeps the places of waiters that ask again", "RestartServesAllWaiters"},
	{"waiter that leaves after a restart takes the next along", "RestartServesAllWaiters"},
}
