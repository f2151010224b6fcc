package conformance

// connections cut at every byte of a request
var cutChecks = []Check{}
