package postgres

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/internal/storetest"
)

// TestHostileSearchPath uses every feature of the store with a search_path that begins with a schema that shadows the
// server's functions, operators, types and views.
func TestHostileSearchPath(t *testing.T) {
	t.Parallel()
	s := altered(t)
	c := dialed(t, s.PostgresURL())
	if _, err := c.Exec(t.Context(), storetest.HostileSchema(calledFunctions(t))); err != nil {
		t.Fatal(err)
	}
	for name, params := range map[string]string{
		"session": "", "durable": "&lock_durable=true",
	} {
		t.Run(name, func(t *testing.T) {
			b := opened(t, s.PostgresURL()+"&search_path=hostile,pg_catalog"+params)
			storetest.UseAll(t, b, name)
			reader := acquire(t, b, asReader(req(name, time.Minute)))
			writer := queueUp(t, b, waiting(name, time.Minute), 1)
			next := queueUp(t, b, asReader(waiting(name, time.Minute)), 2)
			release(t, reader)
			release(t, granted(t, writer, soon).Lease)
			release(t, granted(t, next, soon).Lease)
		})
	}
}

// sqlFiles returns the texts of the SQL files by their names.
func sqlFiles(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files, error %v", len(names), err)
	}
	texts := make(map[string]string)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

// calledFunctions returns the names of the functions that the SQL files call.
func calledFunctions(t *testing.T) (names []string) {
	t.Helper()
	call := regexp.MustCompile(`\b([a-z_]+)\(`)
	for _, text := range sqlFiles(t) {
		for _, m := range call.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
	}
	// Options.prepare adds these.
	names = append(names, "pg_current_xact_id", "pg_logical_emit_message",
		"pg_try_advisory_lock_shared", "pg_advisory_lock_shared")
	slices.Sort(names)
	return slices.Compact(names)
}

// TestStatementsNameSchemas checks that the SQL files contain no function, operator or type that is looked up in the
// search_path.
func TestStatementsNameSchemas(t *testing.T) {
	t.Parallel()
	harmless := regexp.MustCompile(`(?m)--.*$|'[^']*'|OPERATOR\(pg_catalog\.[^)]+\)|%\[?\d?\]?d`)
	unqualified := regexp.MustCompile(`(?:^|[^.\w])(?:pg_\w+|\w+\()|::(?:text|oid|xid|timestamptz)\b|[^:\w\s()\[\],.$;]{1,2}`)
	syntax := []string{"extract(", "coalesce(", "greatest(", "least("} // these are part of the grammar, not names
	for name, text := range sqlFiles(t) {
		text = harmless.ReplaceAllString(text, "")
		text = strings.ReplaceAll(text, "count(*)", "count()")
		text = strings.ReplaceAll(text, "SET LOCAL idle_in_transaction_session_timeout =", "")
		text = strings.ReplaceAll(text, "SET LOCAL statement_timeout =", "")
		for _, found := range unqualified.FindAllString(text, -1) {
			word := strings.TrimLeft(found, " (:\n\t")
			if !slices.Contains(syntax, word) && word != "pg_catalog" {
				t.Errorf("%s: %q is looked up in the search_path", name, found)
			}
		}
	}
}
