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

//go:embed redlock_break.lua
var redlockBreakLua string

//go:embed redlock_inspect.lua
var redlockInspectLua string

var (
	redlockMeet    = script{redlockPrelude + redlockMeetLua, "27662109acb2069441ad6d5b2556c4c86d72962c"}
	redlockAcquire = script{redlockPrelude + redlockAcquireLua, "28d5bc22c1d147b40162cb76cec8756be06dcc0a"}
	redlockConfirm = script{redlockPrelude + redlockConfirmLua, "2649b1ad7d663b77f59af515e3ea446c99c3ac7f"}
	redlockRenew   = script{redlockPrelude + redlockRenewLua, "748d00790b8bf08713f91e828dadedf8cd41892e"}
	redlockRepair  = script{redlockPrelude + redlockRepairLua, "15482dbb925a5c3c522aa95a9e5081e22844f923"}
	redlockRelease = script{redlockPrelude + redlockReleaseLua, "fa4bf6edabd45bf9ea6871e553e307e294fdabd2"}
	redlockBreak   = script{redlockPrelude + redlockBreakLua, "a55461daae1f36bcb5954653e9627d484d782046"}
	redlockInspect = script{redlockPrelude + redlockInspectLua, "5b1a5a30ed422f82b4f9bad347dc94da118eb8aa"}
)

// redlockCommands are those of Redlock's scripts.
var redlockCommands = []string{
	"SET lock 1 PX 1000", "GET lock", "PTTL lock", "PEXPIRE lock 1000", "TIME", "INFO server", "DEL lock",
}
