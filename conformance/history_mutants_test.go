package conformance_test

// historyMutants are bugs that appear in histories of clients under random faults.
var historyMutants = []mutant{
	{"token goes back once in a while", "HistoryUnderContention"},
	{"released key is refused for a moment", "HistoryUnderContention"},
	{"acquire checks, then sets", "HistoryUnderContention"},
	{"lease ends after 9/10 of its TTL", "HistoryUnderExpiry"},
	{"lease ends a second late", "HistoryUnderExpiry"},
	{"stale Release is sent without owner", "HistoryUnderExpiry"},
	{"stale Renew takes a free key", "HistoryUnderExpiry"},
	{"lease ends with its connection, and nobody is notified", "HistoryUnderLinkFaults"},
	{"release ignores the owner", "HistoryUnderLinkFaults"},
	{"lease of a killed process never ends", "HistoryUnderProcessFaults"},
	{"stale Release is sent without owner", "HistoryUnderProcessFaults"},
	{"tokens restart with the store", "HistoryUnderOutages"},
	{"restart drops leases", "HistoryUnderOutages"},
}
