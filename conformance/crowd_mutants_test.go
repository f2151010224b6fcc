package conformance_test

// crowds: many rounds of contention, many cancelled waiters, races repeated ten thousand times, keys that collide in naive encodings
var crowdMutants = []mutant{}
