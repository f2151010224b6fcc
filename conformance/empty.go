package conformance

// stores that come back without their data
var emptyChecks = []Check{}
