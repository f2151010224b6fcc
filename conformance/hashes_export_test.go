package conformance

// Murmur3 exports murmur3 to package conformance_test.
var Murmur3 = murmur3
