package conformance_test

// queueEventMutants are bugs in which an event disturbs the queue of other waiters.
var queueEventMutants = []mutant{
	{"break turns the queue round", "EventsKeepQueue"},
	{"break of a waiter's owner puts the waiter last", "EventsKeepQueue"},
	{"wait that times out drops who came before", "EventsKeepQueue"},
	{"wait that times out sends the waiter behind it to the end", "EventsKeepQueue"},
	{"waiter that gives up soon after a release sends the first to the end", "EventsKeepQueue"},

	{"break drops who waits second", "BrokenHoldersKeepQueue"},
	{"break passes over who waits first", "BrokenHoldersKeepQueue"},
	{"late release of a broken lease turns the queue round", "BrokenHoldersKeepQueue"},
	{"late renewal of a broken lease drops who waits last", "BrokenHoldersKeepQueue"},

	{"waiter that gives up sends the first of another queue to the end", "QueuesAreSeparate"},
	{"break drops who waits last for another key of the client", "QueuesAreSeparate"},
	{"expiry with nobody waiting wakes the queue of another key", "QueuesAreSeparate"},

	{"turn that is not taken puts the next waiter last", "SilentWaitersKeepQueue"},
	{"turn that is not taken ends the next one too", "SilentWaitersKeepQueue"},
}
