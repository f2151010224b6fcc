package conformance

// partitions and slow links
var partitionChecks = []Check{}
