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
	redlockMeet    = script{redlockPrelude + redlockMeetLua, "019e71099ba1b2ffc1cadc3b191b0525899eb18f"}
	redlockAcquire = script{redlockPrelude + redlockAcquireLua, "393f9336e7737b37509deeace66ab6e569589045"}
	redlockConfirm = script{redlockPrelude + redlockConfirmLua, "30e2ffc31e37e78ce1ec1b2c3e7422efc59c57b4"}
	redlockRenew   = script{redlockPrelude + redlockRenewLua, "414d1ba89af093a361e89a32359fbde740ccf478"}
	redlockRepair  = script{redlockPrelude + redlockRepairLua, "bfb505de8a96e75e4ee9146a7156a07b8321da0d"}
	redlockRelease = script{redlockPrelude + redlockReleaseLua, "a611ed3251c2fe98098df9f4ba92858edc0d8bb4"}
	redlockInspect = script{redlockPrelude + redlockInspectLua, "781d403dc920c6b9fdf92a3844fc3cc06b7b6128"}
)
