package conformance

// costly names the checks of the core that take the most processor time on a real server. "make costly" measures each
// check alone and writes this file. On etcd, zookeeper, postgres the checks took
// 182 CPU-seconds of 307.
var costly = []string{
	"BatchFindsLossesAnywhere",
	"CancelRacesAttempt",
	"CancelledWaitersLeaveNothing",
	"ClientForgetsEndedLeases",
	"ContentionParksNobody",
	"CutInsideBatch",
	"CutInsideRefusal",
	"CutInsideRelease",
	"CutInsideRenew",
	"CutListFails",
	"EmptiedStoreServes",
	"EvictedOwnersThatLookAlike",
	"KeysDoNotCollide",
	"KilledInsideAcquire",
	"LargeBatchRenewsEach",
	"LeasesCostNoGoroutines",
	"ListIsComplete",
	"LongQueueIsServed",
	"ManyInFlight",
	"OddTTLsAreKept",
	"OwnersThatLookAlike",
	"RenewAgainstRelease",
	"RestartEndsDeadLeases",
	"RestartKeepsDeadlines",
	"StoreForgetsEndedLeases",
	"StrandedRequestChangesNothing",
	"TinyRenewalsAreRoundedUp",
}
