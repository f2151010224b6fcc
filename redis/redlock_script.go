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
	redlockAcquire = script{redlockPrelude + redlockAcquireLua, "e7304eaea99647182ded51ff53d44cf8c660085c"}
	redlockConfirm = script{redlockPrelude + redlockConfirmLua, "87267c8205f556fec1d3ef0e1fa315d4bc973ed5"}
	redlockRenew   = script{redlockPrelude + redlockRenewLua, "65a68bad648b0d38439ca655195367acd37bea12"}
	redlockRepair  = script{redlockPrelude + redlockRepairLua, "f4177556553cd7058078e5e26496ee149596f54e"}
	redlockRelease = script{redlockPrelude + redlockReleaseLua, "b95ad95c5e6b4c7907b1781895fd95389171661e"}
	redlockInspect = script{redlockPrelude + redlockInspectLua, "a08ac5ed2a3c2cd405e52c7eacf665091aca598b"}
)
