// Package locktests has the tests of package lock that need stores on servers or modules of others. In package lock
// itself they would add those modules to the module graph of every user: "go mod tidy" loads the tests of the packages
// that a module imports.
package locktests
