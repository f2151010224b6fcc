package postgres

import (
	"testing"

	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestDoctorWellConfigured(t *testing.T) {
	t.Parallel()
	if list := storetest.Examined(t, opened(t, servers.Postgres(t).PostgresURL())); len(list) > 0 {
		t.Errorf("%+v", list)
	}
}

func TestDoctorSettings(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t, "max_connections=20", "statement_timeout=1500", "track_activities=off").PostgresURL()
	b := opened(t, url+"&lock_durable=true")
	storetest.Finds(t, b, "few-connections", "short-timeouts", "fsync-off", "no-activities")
}

// The servers of these tests are too old for transaction_timeout, so only the rule is tested.
func TestDoctorTransactionTimeout(t *testing.T) {
	list := kit.Apply(rules, "", reading{values: map[string]string{"transaction_timeout": "1000"}})
	if len(list) != 1 || list[0].Code != "transaction-timeout" {
		t.Errorf("%+v", list)
	}
}
