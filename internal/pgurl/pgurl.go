// Package pgurl converts a store's URL into the configuration of pgx.
package pgurl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

const defaultPort = "5432"

// Config returns pgx's configuration for a URL. It builds a new URL from the parts of u, which pgx parses.
func Config(u driver.URL) (*pgx.ConnConfig, error) {
	native, err := nativeURL(u)
	if err != nil {
		return nil, fmt.Errorf("%w: %s url: %w", backend.ErrInvalid, u.Scheme, err)
	}
	config, err := pgx.ParseConfig(native)
	if parse := (*pgconn.ParseConfigError)(nil); errors.As(err, &parse) {
		parse.ConnString = "" // the message would quote the URL
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s url: %w", backend.ErrInvalid, u.Scheme, err)
	}
	return config, nil
}

func nativeURL(u driver.URL) (string, error) {
	native := "postgres://"
	if u.HasUser {
		native += driver.Escape(u.User) + ":" + driver.Escape(u.Password) + "@"
	}
	for i, h := range u.Hosts {
		if i > 0 {
			native += ","
		}
		name, port, hasPort := strings.Cut(h, ":")
		socket, err := url.PathUnescape(name)
		switch {
		case err != nil:
			return "", errors.New("bad %XX escape in a host")
		case !strings.HasPrefix(socket, "/"):
			if _, err := driver.HostPort(h, defaultPort); err != nil {
				return "", err
			}
			native += h
		case hasPort:
			native += driver.Escape(socket) + ":" + port
		default:
			native += driver.Escape(socket)
		}
	}
	if database := strings.TrimPrefix(u.Path, "/"); database != "" {
		native += "/" + driver.Escape(database)
	}
	query, err := nativeQuery(u)
	if err != nil || query == "" {
		return native, err
	}
	return native + "?" + query, nil
}

// nativeQuery decodes parameters like pgx, where a + is a +. It rejects an unknown parameter behind a password. Such a
// parameter may be part of the password, but pgx would send it to the server, whose error may quote it.
func nativeQuery(u driver.URL) (string, error) {
	var list []string
	if u.Query == "" {
		return "", nil
	}
	for param := range strings.SplitSeq(u.Query, "&") {
		if param == "" {
			continue
		}
		name, value, hasValue := strings.Cut(param, "=")
		name, err1 := url.PathUnescape(name)
		value, err2 := url.PathUnescape(value)
		if err1 != nil || err2 != nil {
			return "", errors.New("bad %XX escape in a parameter")
		}
		unknown := driver.UnknownParam(u.Query, name)
		if !hasValue || !slices.Contains(clientParams, name) && !strings.Contains(unknown, fmt.Sprintf("%q", name)) {
			return "", errors.New(unknown)
		}
		list = append(list, driver.Escape(name)+"="+driver.Escape(value))
	}
	return strings.Join(list, "&"), nil
}

// clientParams are parameters that pgx or every server accepts.
var clientParams = strings.Fields(`host port database dbname user password passfile connect_timeout sslmode sslkey sslcert sslcertmode
	sslrootcert sslnegotiation sslpassword sslsni krbspn krbsrvname target_session_attrs service servicefile min_protocol_version
	max_protocol_version channel_binding require_auth default_query_exec_mode statement_cache_capacity description_cache_capacity
	application_name options search_path client_encoding timezone TimeZone datestyle DateStyle role statement_timeout
	idle_in_transaction_session_timeout tcp_user_timeout`)

// Hosts counts the servers that config names.
func Hosts(config *pgconn.Config) int {
	named := map[string]bool{fmt.Sprint(config.Host, ":", config.Port): true}
	for _, f := range config.Fallbacks {
		named[fmt.Sprint(f.Host, ":", f.Port)] = true
	}
	return len(named)
}
