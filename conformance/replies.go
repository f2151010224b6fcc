package conformance

// replies that are lost, held or late
var replyChecks = []Check{}
