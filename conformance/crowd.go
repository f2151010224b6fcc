package conformance

// crowds: many rounds of contention, many cancelled waiters, races repeated ten thousand times, keys that collide in naive encodings
var crowdChecks = []Check{}
