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

// hostileSchema creates functions, operators, types and views that shadow those of pg_catalog if a statement names them
// without a schema. {FUNCTIONS} stands for the names of the functions. Each function and operator fails when it is
// called, each type refuses every value, and each view is empty.
const hostileSchema = `
DO $do$
DECLARE r record;
	known text[] := '{smallint,integer,bigint,oid,name,text,numeric,timestamp with time zone}';
BEGIN
	CREATE SCHEMA hostile;
	FOR r IN SELECT proname, pg_get_function_identity_arguments(oid) AS args, pg_get_function_result(oid) AS result FROM pg_proc
		WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND proname = ANY ('{FUNCTIONS}')
	LOOP
		BEGIN
			EXECUTE format('CREATE FUNCTION hostile.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN RAISE ''hostile function''; END$f$',
				r.proname, r.args, r.result);
		EXCEPTION WHEN OTHERS THEN NULL; -- pseudo-types that PL/pgSQL has not
		END;
	END LOOP;
	FOR r IN SELECT 'of_' || oid AS f, oprname, format_type(oprleft, NULL) AS l, format_type(oprright, NULL) AS r,
			format_type(oprresult, NULL) AS result FROM pg_operator
		WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprname IN ('=', '<>', '<', '<=', '>', '>=', '+', '-', '*', '||', '~~')
		AND format_type(oprleft, NULL) = ANY (known) AND format_type(oprright, NULL) = ANY (known)
	LOOP
		EXECUTE format('CREATE FUNCTION hostile.%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN RAISE ''hostile operator''; END$f$',
			r.f, r.l, r.r, r.result);
		EXECUTE format('CREATE OPERATOR hostile.%s (FUNCTION = hostile.%s, LEFTARG = %s, RIGHTARG = %s)', r.oprname, r.f, r.l, r.r);
	END LOOP;
	FOR r IN SELECT unnest('{text,oid,xid,timestamptz,int8,int4}'::text[]) AS name LOOP
		EXECUTE format('CREATE DOMAIN hostile.%I AS pg_catalog.%I CHECK (false)', r.name, r.name);
	END LOOP;
	FOR r IN SELECT unnest('{pg_locks,pg_stat_activity,pg_database,pg_stat_database,pg_settings,pg_roles,pg_stat_replication}'::text[]) AS name LOOP
		EXECUTE format('CREATE VIEW hostile.%I AS SELECT * FROM pg_catalog.%I WHERE false', r.name, r.name);
	END LOOP;
END $do$`

// TestHostileSearchPath uses every feature of the store with a search_path that begins with a schema that shadows the
// server's functions, operators, types and views.
func TestHostileSearchPath(t *testing.T) {
	t.Parallel()
	s := altered(t)
	c := dialed(t, s.PostgresURL())
	if _, err := c.Exec(t.Context(), strings.Replace(hostileSchema, "{FUNCTIONS}",
		"{"+strings.Join(calledFunctions(t), ",")+"}", 1)); err != nil {
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
