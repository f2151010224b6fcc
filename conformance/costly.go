package conformance

// costly names the checks of the core that take the most processor time on a real server, measured on etcd, ZooKeeper and Postgres. Together
// they take more than all the others.
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
	"CutListIsNoPart",
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
