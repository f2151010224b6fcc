package conformance

// other processes, frozen, killed, or with a wrong clock
var processChecks = []Check{}
