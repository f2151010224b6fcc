package conformance

// InBubble exports inBubble to package conformance_test.
var InBubble = inBubble
