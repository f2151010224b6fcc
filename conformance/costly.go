package conformance

// costly names the checks of the core that take the most processor time on a real server. On etcd, ZooKeeper and
// Postgres they took 182 CPU-seconds of 307 when each check ran alone.
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
