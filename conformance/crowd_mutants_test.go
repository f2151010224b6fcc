package conformance_test

// crowdMutants are bugs that appear in crowds: many rounds of contention, many cancelled waiters, races repeated ten
// thousand times, and keys that collide in naive encodings.
var crowdMutants = []mutant{
	{"release that meets a waiter coming is missed", "ContentionParksNobody"},
	{"waiter that leaves at its turn takes the turn along", "ContentionParksNobody"},
	{"cancellation at the grant keeps the key", "ContentionParksNobody"},

	{"one cancelled waiter in 150 stays in the queue", "CancelledWaitersLeaveNothing"},
	{"one wait in 50 leaves a goroutine", "CancelledWaitersLeaveNothing"},
	{"cancelled request is not cleaned up", "CancelledWaitersLeaveNothing"},

	{"renew takes a free key", "RenewAgainstRelease"},
	{"one release in 200 that meets a renewal is missed", "RenewAgainstRelease"},

	{"release ignores the owner", "FailedRequestsChangeNothing"},
	{"renew ignores the owner", "FailedRequestsChangeNothing"},
	{"stale renew drops who waits first", "FailedRequestsChangeNothing"},
	{"refused attempt turns the queue round", "FailedRequestsChangeNothing"},
	{"refused attempt prolongs the holder's lease", "FailedRequestsChangeNothing"},
	{"refused attempt stays in the queue", "FailedRequestsChangeNothing"},

	{"keys are their CRC-32", "KeysDoNotCollide"},
	{"keys are their FNV-1a of 64 bits, cut to 32", "KeysDoNotCollide"},
	{"keys are the first 4 bytes of their SHA-256", "KeysDoNotCollide"},
	{"keys are 16 bits of a hash", "KeysDoNotCollide"},

	{"long keys are their SHA-256", "KeysAreNotTheirEncoding"},
	{"keys are unescaped", "KeysAreNotTheirEncoding"},
	{"odd keys are sent in base64", "KeysAreNotTheirEncoding"},
	{"key:queue is a key's own", "KeysAreNotTheirEncoding"},
	{"parts of keys are joined by one slash", "KeysAreNotTheirEncoding"},
	{"keys are cut at 1000 bytes", "KeysAreNotTheirEncoding"},
}
