// Package driver opens stores by URL. A store registers a [Driver], which declares the forms of its URLs and their
// parameters. Package lock finds the driver by the scheme of a URL. Package driver parses URLs, refuses ambiguous ones,
// which two parsers could read differently, and removes passwords from errors.
package driver
