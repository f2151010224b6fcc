package conformance_test

// connections cut at every byte of a request
var cutMutants = []mutant{}
