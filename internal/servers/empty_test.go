package servers

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestRestartEmptyLosesData(t *testing.T) {
	s := Redis(t, "--appendonly", "yes")
	restart := s.RestartEmpty()
	ask(t, s, "SET", "k", "v")
	s.Kill()
	s.Start()
	if got := ask(t, s, "GET", "k"); got != "v" {
		t.Fatalf("a restart loses data: %v", got)
	}
	restart()
	if got := ask(t, s, "GET", "k"); got != nil && got != "" {
		t.Errorf("an empty restart keeps %v", got)
	}
}

func TestRestartEmptyOfPostgresLosesData(t *testing.T) {
	s := Postgres(t)
	restart := s.RestartEmpty()
	exec := func(sql string) error {
		c, err := pgx.Connect(t.Context(), s.PostgresURL())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		_, err = c.Exec(t.Context(), sql)
		return err
	}
	for range 2 {
		if err := exec("CREATE TABLE kept ()"); err != nil {
			t.Fatal(err)
		}
		restart()
	}
}
