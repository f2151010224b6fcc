package conformance

// costly names the checks of the core that take the most processor time on a real server. "make costly" measures each
// check alone and writes this file. On etcd, zookeeper, postgres the checks took
// 258 CPU-seconds of 424.
var costly = []string{
	"BatchFindsLossesAnywhere",
	"CancelRacesAttempt",
	"CancelledWaitersLeaveNothing",
	"ClientForgetsEndedLeases",
	"ContentionParksNobody",
	"CutInsideAcquire",
	"CutInsideBatch",
	"CutInsideRefusal",
	"CutInsideRelease",
	"CutInsideRenew",
	"CutListFails",
	"EmptiedStoreServes",
	"EvictedOwnersThatLookAlike",
	"KeysDoNotCollide",
	"KilledInsideAcquire",
	"KilledInsideRelease",
	"LargeBatchRenewsEach",
	"ListIsComplete",
	"LongQueueIsServed",
	"ManyInFlight",
	"ManyReaders",
	"NoLostWakeUp",
	"OddTTLsAreKept",
	"OwnersThatLookAlike",
	"RenewAgainstRelease",
	"RestartEndsDeadLeases",
	"RestartKeepsDeadlines",
	"StoreForgetsEndedLeases",
	"StoreForgetsEndedReaders",
	"TTLNotEarly",
}
