package conformance_test

// other processes, frozen, killed, or with a wrong clock
var processMutants = []mutant{}
