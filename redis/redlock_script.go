package redis

import _ "embed"

//go:embed redlock_prelude.lua
var redlockPrelude string

//go:embed redlock_meet.lua
var redlockMeetLua string

//go:embed redlock_acquire.lua
var redlockAcquireLua string

//go:embed redlock_confirm.lua
var redlockConfirmLua string

//go:embed redlock_renew.lua
var redlockRenewLua string

//go:embed redlock_repair.lua
var redlockRepairLua string

//go:embed redlock_release.lua
var redlockReleaseLua string

//go:embed redlock_inspect.lua
var redlockInspectLua string

var (
	redlockMeet    = script{redlockPrelude + redlockMeetLua, "e39774cd46d3781ceae46099bc8377b971ff0ae3"}
	redlockAcquire = script{redlockPrelude + redlockAcquireLua, "0217e93b4ad5e83b80ea6d406483d61b57c94c80"}
	redlockConfirm = script{redlockPrelude + redlockConfirmLua, "87267c8205f556fec1d3ef0e1fa315d4bc973ed5"}
	redlockRenew   = script{redlockPrelude + redlockRenewLua, "65a68bad648b0d38439ca655195367acd37bea12"}
	redlockRepair  = script{redlockPrelude + redlockRepairLua, "661f331be6d89b8281dc60f0be891819127d8cf4"}
	redlockRelease = script{redlockPrelude + redlockReleaseLua, "b95ad95c5e6b4c7907b1781895fd95389171661e"}
	redlockInspect = script{redlockPrelude + redlockInspectLua, "a08ac5ed2a3c2cd405e52c7eacf665091aca598b"}
)
