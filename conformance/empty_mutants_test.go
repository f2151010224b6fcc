package conformance_test

// emptyMutants are bugs of stores that restart without their data, and of tokens across restarts.
var emptyMutants = []mutant{
	{"emptied store parks waiters", "EmptiedStoreServes"},
	{"emptied store wakes nobody", "EmptiedStoreServes"},
	{"emptied store is of no use to its clients", "EmptiedStoreServes"},

	{"renew takes a free key", "EmptiedStoreLosesLeases"},
	{"release ignores the owner", "EmptiedStoreLosesLeases"},
	{"Lost never closes", "EmptiedStoreLosesLeases"},

	{"tokens restart with an emptied store", "TokensSurviveEmptying"},

	{"tokens of held keys restart with the store", "TokensSurviveRestart"},
}
