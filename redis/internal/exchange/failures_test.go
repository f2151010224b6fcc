package exchange_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A reply is an error reply of a server.
type reply string

func (r reply) Error() string { return string(r) }

func (r reply) RedisError() {}

// A temporary error of a server is recognized, also if it is that of a command in a script of an old server. An error
// that stays is not taken for a temporary one.
func TestPassingReplies(t *testing.T) {
	inScript := func(text string) string {
		return "ERR Error running script (call to f_0123456789abcdef): @user_script:12: @user_script: 12: " + text
	}
	for text, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                               true,
		"READONLY You can't write against a read only replica.":                        true,
		"MOVED 3999 127.0.0.1:6381":                                                    true,
		"BUSY Redis is busy running a script.":                                         true,
		"ERR max number of clients reached":                                            true,
		inScript("-READONLY You can't write against a read only replica."):             true,
		inScript("-OOM command not allowed when used memory > 'maxmemory'."):           true,
		inScript("-MISCONF Redis is configured to save RDB snapshots"):                 true,
		inScript("-NOREPLICAS Not enough good replicas to write."):                     true,
		inScript("Unknown Redis command called from Lua script"):                       false,
		inScript("-WRONGTYPE Operation against a key holding the wrong kind of value"): false,
		"NOSCRIPT No matching script. Please use EVAL.":                                false,
		"NOPERM this user has no permissions to run the 'eval' command":                false,
		"BUSYKEY Target key name already exists.":                                      false,
	} {
		err := fmt.Errorf("acquire: %w", reply(text))
		if got := exchange.Passing(err); got != want {
			t.Errorf("%q: passing is %v", text, got)
		}
		if got := errors.Is(exchange.Unavailable(t.Context(), err), backend.ErrUnavailable); got != want {
			t.Errorf("%q: unavailable is %v", text, got)
		}
	}
}
