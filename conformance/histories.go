package conformance

// histories of clients under random faults
var historyChecks = []Check{}
