package conformance_test

// resumeMutants are bugs of resumed leases.
var resumeMutants = []mutant{
	// the resumed lease
	{"resume returns another token", "ResumeContinuesLease"},
	{"resume counts the token up", "ResumeContinuesLease"},
	{"resumed lease is not renewed", "ResumeContinuesLease"},
	{"resumed lease is not released", "ResumeContinuesLease"},
	{"resume fails after the client was closed", "ResumeContinuesLease"},
	{"resumed deadline is a second late", "ResumeContinuesLease"},
	{"resume drops who waits first", "ResumeContinuesLease"},

	// the owner
	{"resume ignores the owner", "ResumeIsForTheHolder"},
	{"resume knows an owner by a prefix", "ResumeIsForTheHolder"},
	{"resume knows an owner in any case", "ResumeIsForTheHolder"},
	{"resume acquires a free key", "ResumeIsForTheHolder"},
	{"resume by an owner that waits succeeds", "ResumeIsForTheHolder"},
	{"resume of another's lease extends it", "ResumeIsForTheHolder"},
	{"resume revives an expired lease", "ResumeIsForTheHolder"},
	{"resume revives a released lease", "ResumeIsForTheHolder"},
	{resumeReserved, "ResumeIsForTheHolder"},

	// TTL
	{"resume does not extend", "ResumeSetsTTL"},
	{"resume never shortens", "ResumeSetsTTL"},
	{"resumed lease ends with the first client's", "ResumeSetsTTL"},
	{"resumed deadline counts from the answer", "ResumeCountsFromSending"},

	// two clients
	{resumeTakes, "ResumeSetsTTL"},
	{"resume ends the lease of the first client", "TwoClientsOfOneLease"},
	{"lease ends when each of its clients has released it", "TwoClientsOfOneLease"},
	{"close of a client ends what it has resumed", "TwoClientsOfOneLease"},
	{renewalsMeet, "TwoClientsOfOneLease"},

	// modes
	{"resume ignores the mode", "ResumeOfReaders"},
	{"resume of a reader extends the others", "ResumeOfReaders"},
	{"resume finds the reader alone that came last", "ResumeOfReaders"},

	// races and faults
	{"resume compares, then sets", "ResumeRacesRelease"},
	{"resume that is not answered is cleaned up", "LostResumeReplyEndsNothing"},
	{"resume that is not answered is ErrLost", "LostResumeReplyEndsNothing"},
	{"renewal extends nothing after a Resume without a reply", "CutInsideResume"},
	{"late resume revives its lease", "LateResumeRevivesNothing"},
	{"late resume extends the next lease", "LateResumeRevivesNothing"},
	{"resume fails for a process that is dead", "LeaseOfDeadProcessIsResumed"},
	{"release ends a lease that was resumed since its loss", "LeaseOfDeadProcessIsResumed"},

	// input
	{"resume takes TTL 0", "ResumeRefusesBadInput"},
	{"resume ignores its context", "ResumeRefusesBadInput"},
	{"resume with an ended context ends the lease", "ResumeRefusesBadInput"},
	{"Resume after Close is unavailable", "ResumeRefusesBadInput"},

	// other TTLs, and other owners of the key
	{"resume that waits is refused", "ResumeContinuesLease"},
	{"resume below MinTTL is kept as asked", "ResumeSetsTTL"},
	{"waiter sleeps until the end before Resume", "ResumeSetsTTL"},
	{"resume of one of several readers never shortens", "ResumeOfReaders"},
	{"resume finds no reader of a closed client", "ResumeOfReaders"},
	{"resume by a reader that waits succeeds", "ResumeOfReaders"},
	{"resume revives an expired reader of a free key", "ResumeOfReaders"},
}
