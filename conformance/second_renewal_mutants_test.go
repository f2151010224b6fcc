package conformance_test

// secondRenewalMutants are bugs in how renewals and releases without a reply end.
var secondRenewalMutants = []mutant{
	{"Renew that meets another ignores its context", "CancelledSecondRenewal"},
	{"Release's timeout is a context's error", "FrozenReleaseIsBounded"},
}

// resumeCloseMutants are bugs of a Close that overlaps a Resume.
var resumeCloseMutants = []mutant{
	{"Resume that meets Close returns a live lease", "CloseRacesResume"},
	{"Resume that meets Close returns neither lease nor error", "CloseRacesResume"},
	{"Resume that meets Close is cleaned up", "CloseRacesResume"},
}
