package conformance_test

// partitions and slow links
var partitionMutants = []mutant{}
