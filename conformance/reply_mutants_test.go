package conformance_test

// replies that are lost, held or late
var replyMutants = []mutant{}
