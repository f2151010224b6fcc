package storetest

import "strings"

// HostileSchema returns SQL that creates the schema hostile in Postgres. Its functions, operators, types and views
// shadow those of pg_catalog if a statement names them without a schema. functions are the names of the functions. Each
// function and operator fails when it is called, each type refuses every value, and each view is empty.
func HostileSchema(functions []string) string {
	return strings.Replace(hostileSchema, "{FUNCTIONS}", "{"+strings.Join(functions, ",")+"}", 1)
}

const hostileSchema = `
DO $do$
DECLARE r record;
	known text[] := '{smallint,integer,bigint,oid,name,text,bytea,double precision,numeric,timestamp with time zone}';
BEGIN
	CREATE SCHEMA hostile;
	FOR r IN SELECT proname, pg_get_function_identity_arguments(oid) AS args, pg_get_function_result(oid) AS result
		FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND proname = ANY ('{FUNCTIONS}')
	LOOP
		BEGIN
			EXECUTE format('CREATE FUNCTION hostile.%I(%s) RETURNS %s LANGUAGE plpgsql
				AS $f$BEGIN RAISE ''hostile function''; END$f$',
				r.proname, r.args, r.result);
		EXCEPTION WHEN OTHERS THEN NULL; -- pseudo-types that PL/pgSQL has not
		END;
	END LOOP;
	FOR r IN SELECT 'of_' || oid AS f, oprname, format_type(oprleft, NULL) AS l, format_type(oprright, NULL) AS r,
			format_type(oprresult, NULL) AS result FROM pg_operator
		WHERE oprnamespace = 'pg_catalog'::regnamespace
		AND oprname IN ('=', '<>', '<', '<=', '>', '>=', '+', '-', '*', '||', '~~')
		AND format_type(oprleft, NULL) = ANY (known) AND format_type(oprright, NULL) = ANY (known)
	LOOP
		EXECUTE format('CREATE FUNCTION hostile.%s(%s, %s) RETURNS %s LANGUAGE plpgsql
			AS $f$BEGIN RAISE ''hostile operator''; END$f$',
			r.f, r.l, r.r, r.result);
		EXECUTE format('CREATE OPERATOR hostile.%s (FUNCTION = hostile.%s, LEFTARG = %s, RIGHTARG = %s)',
			r.oprname, r.f, r.l, r.r);
	END LOOP;
	FOR r IN SELECT unnest('{text,oid,xid,timestamptz,int8,int4,bytea}'::text[]) AS name LOOP
		EXECUTE format('CREATE DOMAIN hostile.%I AS pg_catalog.%I CHECK (false)', r.name, r.name);
	END LOOP;
	FOR r IN SELECT unnest(
		'{pg_locks,pg_stat_activity,pg_database,pg_stat_database,
		pg_settings,pg_roles,pg_stat_replication}'::text[]) AS name LOOP
		EXECUTE format('CREATE VIEW hostile.%I AS SELECT * FROM pg_catalog.%I WHERE false', r.name, r.name);
	END LOOP;
END $do$`
