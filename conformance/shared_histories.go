package conformance

// Histories of readers and writers under random faults.
var sharedHistoryChecks = []Check{
	{
		Name: "SharedHistoryUnderContention",
		Rule: "rules 1, 5 and 7: what racing readers and writers see is what a store does that grants shared leases " +
			"beside each other only",
		run: historyUnderContention,
	},
	{
		Name: "SharedHistoryUnderExpiry",
		Rule: "rules 1, 2, 3, 5 and 7: so it is when leases run out, and late holders renew and release what is no " +
			"longer theirs",
		run: historyUnderExpiry,
	},
	{
		Name: "SharedHistoryUnderLinkFaults",
		Rule: "rules 1, 2, 3, 4, 5 and 7: so it is when links of readers and writers break, hang, lose and delay what " +
			"passes",
		Needs: []Need{needsLinked},
		run:   historyUnderLinkFaults,
	},
	{
		Name:  "SharedHistoryUnderProcessFaults",
		Rule:  "rules 1, 2, 3, 4, 5 and 7: so it is when processes that read or write are frozen and killed",
		Needs: []Need{needsProcess},
		run:   historyUnderProcessFaults,
	},
	{
		Name:  "SharedHistoryUnderOutages",
		Rule:  "rules 1, 2, 3, 4, 5 and 7: so it is when the store stops answering, or is killed and started again",
		Needs: []Need{needsOutages},
		alone: true,
		run:   historyUnderOutages,
	},
}
