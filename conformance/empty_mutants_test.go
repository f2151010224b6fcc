package conformance_test

// stores that come back without their data
var emptyMutants = []mutant{}
