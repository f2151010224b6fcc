// Package driver opens stores by URL. A store registers a [Driver], which declares the forms of its URLs and their
// parameters; package lock finds it by the scheme of a URL. The package parses URLs, refuses those that
// two readers could understand differently, and removes passwords from errors.
package driver
