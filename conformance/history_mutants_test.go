package conformance_test

// histories of clients under random faults
var historyMutants = []mutant{}
