package conformance_test

// how renewals and releases end that get no reply
var secondRenewalMutants = []mutant{
	{"Renew that meets another ignores its context", "CancelledSecondRenewal"},
	{"Release's timeout is a context's error", "FrozenReleaseIsBounded"},
}

// a Close that meets Resume
var resumeCloseMutants = []mutant{
	{"Resume that meets Close returns a live lease", "CloseRacesResume"},
	{"Resume that meets Close returns neither lease nor error", "CloseRacesResume"},
	{"Resume that meets Close is cleaned up", "CloseRacesResume"},
}
