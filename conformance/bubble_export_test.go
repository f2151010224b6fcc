package conformance

// InBubble is inBubble.
var InBubble = inBubble
