// Package postgres keeps locks in Postgres.
package postgres
